#pragma once

// Storm says how many nodes are *newly* down, of those that fell and are down still: all that fell
// within the window, and where too many fell within a window of one another, all since the first of
// these. So a machine that was switched off days ago says nothing about tonight, and a storm does
// not become ordinary because it lasts, nor because the engine was restarted in the middle of it.
// After `memory` even a storm is forgotten: whoever switches off half of the cluster for good.
// Pure.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/time.h"

namespace moonfence::fence {

struct StormRules {
  Duration window;
  Duration memory;
  // Whether so many of so many workers down at once are too many.
  std::function<bool(std::int64_t down, std::int64_t workers)> too_many;
};

struct Storm {
  std::int64_t workers = 0;  // those that are up, and those that are newly down
  std::int64_t down = 0;
  bool too_many = false;
  Moment since{};                                // who fell then or later is newly down
  std::optional<Moment> changes = std::nullopt;  // when passing time alone changes these numbers
};

// `falls`: in order; max() stands for "now".
[[nodiscard]] Storm storm_of(const std::vector<Moment>& falls, std::int64_t up,
                             const StormRules& rules, Moment now);

}  // namespace moonfence::fence
