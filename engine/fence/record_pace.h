#pragma once

// RecordPace says when an incident's record is written while pods of the node are still being
// judged. The first deletions wait for it: it is written with the first of them. It is written
// whole each time, so the next one waits until as much is new as was written before, or until there
// is nothing more to come: a thousand pods are nine writes and not a hundred. But nobody waits for
// others longer than kPatience, however slow the policies are.

#include <cstddef>
#include <utility>

#include "base/time.h"

namespace moonfence::fence {

class RecordPace {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(20);

  // Something is to be written.
  void add(Moment now) {
    if (waiting_++ == 0) {
      since_ = now;
    }
  }
  [[nodiscard]] bool has_any() const { return waiting_ > 0; }
  // `more_comes`: in the next turn, without waiting for anybody.
  [[nodiscard]] bool is_due(bool more_comes, Moment now) const {
    return has_any() && (!more_comes || waiting_ >= written_ || now - since_ >= kPatience);
  }
  // All of it is being written.
  void write() { written_ += std::exchange(waiting_, 0); }

 private:
  std::size_t waiting_ = 0;
  std::size_t written_ = 0;
  Moment since_{};  // when the first of the waiting was added
};

}  // namespace moonfence::fence
