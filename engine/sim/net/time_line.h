#pragma once

// The one monotonic clock of a simulated world. Only World moves it; everybody else looks at it.

#include "base/time.h"

namespace moonfence::sim {

struct TimeLine {
  Moment now{};
};

// The API servers' wall clock at the beginning of every run: 2026-01-01T00:00:00Z.
inline constexpr WallTime kEpoch{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

[[nodiscard]] inline WallTime true_wall_time(const TimeLine& time) {
  return kEpoch + time.now.time_since_epoch();
}

}  // namespace moonfence::sim
