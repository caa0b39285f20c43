#pragma once

// Limits is what may be slow: they follow the API server's pace (kube/server_pace.h), within
// bounds.

#include "base/time.h"

namespace moonfence::fence {

struct Limits {
  // How old a reading may be when the bytes of a deed that rests on it leave (design.md §3.6).
  Duration reading = std::chrono::seconds(1);
  // When both sides of the wire give up a write.
  Duration call = std::chrono::seconds(5);
  // The longest that was given to a call which may still be under way.
  Duration longest_call = call;

  // How long an action may be under way: its own time limit and the way of the answer. Nobody else
  // may begin to act within it.
  [[nodiscard]] Duration action_span() const {
    return longest_call + std::chrono::milliseconds(500);
  }
};

}  // namespace moonfence::fence
