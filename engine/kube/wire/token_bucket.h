#pragma once

// TokenBucket lets a burst pass, and then one at a time.

#include <algorithm>

#include "base/time.h"

namespace moonfence::kube {

class TokenBucket {
 public:
  // Full in the beginning; gains one every `refill`.
  TokenBucket(int burst, Duration refill) : burst_(burst), refill_(refill) {}

  // Takes one if there is any.
  bool take(Moment now) {
    const bool passes = wait(now) == Duration::zero();
    if (passes) {
      full_at_ = std::max(full_at_, now) + refill_;
    }
    return passes;
  }
  // Until there is one to take.
  [[nodiscard]] Duration wait(Moment now) const {
    return std::max(full_at_ - now - refill_ * (burst_ - 1), Duration::zero());
  }
  [[nodiscard]] bool is_full(Moment now) const { return full_at_ <= now; }

 private:
  int burst_;
  Duration refill_;
  Moment full_at_{};
};

}  // namespace moonfence::kube
