#pragma once

// RecordPace says when an incident's record is written while pods of the node are still being
// judged. The first deletions wait for nothing but it: it is written with the first of them. Each
// time it is written whole, by an API server that deletes meanwhile, so the next write waits until
// there is nothing more to come: judging is the faster of the two, and a hundred pods are two
// writes. But nobody waits for others longer than kPatience, however slow the policies are.

#include <utility>

#include "base/time.h"

namespace moonfence::fence {

class RecordPace {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);

  // Something is to be written.
  void add(Moment now) {
    if (!std::exchange(waiting_, true)) {
      since_ = now;
    }
  }
  [[nodiscard]] bool has_any() const { return waiting_; }
  // `more_comes`: in the next turn, without waiting for anybody.
  [[nodiscard]] bool is_due(bool more_comes, Moment now) const {
    return waiting_ && (!more_comes || !written_ || now - since_ >= kPatience);
  }
  // All of it is being written.
  void write() { written_ = std::exchange(waiting_, false) || written_; }

 private:
  bool waiting_ = false;
  bool written_ = false;  // something was
  Moment since_{};        // when the first of the waiting was added
};

}  // namespace moonfence::fence
