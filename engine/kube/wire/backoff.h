#pragma once

// How long to wait after a failed attempt: 800 ms, doubled up to 30 s, plus up to as much again by
// chance so that replicas do not return in step; the first step again after 2 minutes without a
// failure, or when an attempt has succeeded. client-go's reflector numbers
// (tools/cache/reflector.go), which knows the two minutes only. Pure: time and chance come in.

#include <optional>

#include "base/time.h"

namespace moonfence::kube {

class Backoff {
 public:
  // `chance` is uniform in [0, 1). The server's wish is a minimum.
  [[nodiscard]] Duration next(Moment now, double chance,
                              std::optional<Duration> retry_after = std::nullopt);
  // The last attempt was a success: the next failure is the first.
  void forget() { step_ = Duration::zero(); }

 private:
  Duration step_ = Duration::zero();  // zero: the next failure is the first
  Moment quiet_since_{};              // the end of the last delay
};

}  // namespace moonfence::kube
