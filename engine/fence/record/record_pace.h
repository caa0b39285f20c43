#pragma once

// RecordPace says when an incident's record is written while pods of the node are still being
// judged. Deletions wait for nothing but it. Each time it is written whole, and from an API server
// that deletes meanwhile the answer takes 60 to 190 ms, in which nothing else can leave. So a write
// waits until nothing more is to come: judging is the faster of the two. Two wait less:
// - The first of few pods: they can leave while the others are judged, and are too few to keep the
//   server from the second write.
// - Nobody waits for others longer than kPatience, however slow the policies are.

#include <cstddef>
#include <utility>

#include "base/time.h"
#include "kube/calls/destroyer.h"

namespace moonfence::fence {

class RecordPace {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  // As many as leave together where that is least (kube::Destroyer). More of them need connections
  // that are opened while the record is written.
  static constexpr std::size_t kFew = kube::Destroyer::kMostAtOnce;

  // Something is to be written.
  void add(Moment now) {
    if (waiting_++ == 0) {
      since_ = now;
    }
  }
  [[nodiscard]] bool has_any() const { return waiting_ > 0; }
  // `to_come`: pods that are judged in the next turns, without waiting for anybody.
  [[nodiscard]] bool is_due(std::size_t to_come, Moment now) const {
    const bool first_of_few = !written_ && waiting_ + to_come <= kFew;
    return has_any() && (to_come == 0 || first_of_few || now - since_ >= kPatience);
  }
  // All of it is being written: so many.
  std::size_t write() {
    written_ = written_ || has_any();
    return std::exchange(waiting_, 0);
  }

 private:
  std::size_t waiting_ = 0;
  bool written_ = false;  // something was
  Moment since_{};        // when the first of the waiting was added
};

}  // namespace moonfence::fence
