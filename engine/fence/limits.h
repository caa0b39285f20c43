#pragma once

// Limits is what may be slow: they follow the API server's pace (kube/server_pace.h), within
// bounds.

#include "base/time.h"

namespace moonfence::fence {

struct Limits {
  static constexpr Duration kReading = std::chrono::seconds(1);
  static constexpr Duration kPicture = std::chrono::seconds(5);

  // How old a reading may be when the bytes of a deed that rests on it leave (design.md §3.6).
  Duration reading = kReading;
  // When both sides of the wire give up a write.
  Duration call = std::chrono::seconds(5);
  // The longest that was given to a call which may still be under way.
  Duration longest_call = call;

  // By how much longer a slow server takes over reads that follow one another: a list of pods, and
  // what is looked up for them.
  [[nodiscard]] Duration slack() const { return 3 * (reading - kReading); }
  // How old the lists may be by which a volume has no other user, or which name all that a taint
  // evicts. The node's taint keeps new pods off, but for those that tolerate it.
  [[nodiscard]] Duration picture() const { return kPicture + slack(); }

  // How long an action may be under way: its own time limit and the way of the answer. Nobody else
  // may begin to act within it.
  [[nodiscard]] Duration action_span() const {
    return longest_call + std::chrono::milliseconds(500);
  }
};

}  // namespace moonfence::fence
