#pragma once

// The first thing that somebody who was woken up wants to know: does it act, is anything wrong, and
// what is to be done? One state of the whole, and what is to be noticed beside it. Pure.

#include <string>
#include <vector>

#include "app/status/status_snapshot.h"

namespace moonfence::app {

struct Notice {
  Tone tone = Tone::Neutral;
  std::string text;
  std::string hint;  // what to do; "" nothing
};

struct Headline {
  Tone tone = Tone::Neutral;
  std::string title;  // "All quiet", "Frozen: too many nodes are down" …: two to eight words
  std::string text;   // a sentence
  std::vector<Notice> notices;  // the worst first
};

// A picture that is older than this is stale: the loop publishes one a second.
constexpr Duration kStale = std::chrono::seconds(10);

// "1 held, 2 fails": of open incidents those that are not simply under way; "" there are none.
[[nodiscard]] std::string states_text(const StatusSnapshot& snapshot);
// That a health source cannot be read, and that it names what is no Node, each in a sentence
// without its end; "" when that is not so.
[[nodiscard]] std::string unreadable_text(const fence::SourceState& source);
[[nodiscard]] std::string strangers_text(const fence::SourceState& source);

[[nodiscard]] Headline headline_of(const StatusSnapshot& snapshot, WallTime now);

}  // namespace moonfence::app
