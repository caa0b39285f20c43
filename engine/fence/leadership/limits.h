#pragma once

// Limits is what may be slow: they follow the API server's pace (kube/wire/server_pace.h), within
// bounds.

#include <algorithm>

#include "base/time.h"

namespace moonfence::fence {

struct Limits {
  // How old a reading may be when the bytes of a deed that rests on it leave: the node may have
  // come back since.
  Duration reading = std::chrono::seconds(1);
  // When both sides of the wire give up a write.
  Duration call = std::chrono::seconds(5);
  // The longest that was given to a call which may still be under way.
  Duration longest_call = call;

  // About how long the way to the server and back takes.
  Duration round_trip = Duration::zero();

  // How long an action may be under way: its own time limit and the way of the answer. Nobody else
  // may begin to act within it.
  [[nodiscard]] Duration action_span() const {
    return longest_call + std::chrono::milliseconds(500);
  }
};

// How much longer each of several reads may take that follow one another on a slow server.
[[nodiscard]] constexpr Duration slowness_of(const Limits& limits) {
  return limits.reading - Limits{}.reading;
}

// How old lists of a node's pods may be when something is done by them: the node's taint keeps new
// pods off, but for those that tolerate it. `took`: how long the lists took, and finding out what
// is to be known of their pods, because nothing younger can be had. The node, namespaces and
// attachments are read after that, which takes longer on a slow server.
[[nodiscard]] constexpr Duration picture_lifetime(const Limits& limits, Duration took) {
  constexpr Duration kOrdinary = std::chrono::seconds(5);
  constexpr Duration kLongestTook = std::chrono::minutes(1);
  return kOrdinary + std::min(took, kLongestTook) + 3 * slowness_of(limits);
}

}  // namespace moonfence::fence
