#pragma once

// What a machine answered in the last ten minutes, as a strip of signs: one for ten seconds, the
// newest last. Pure.

#include <span>
#include <string>

#include "cluster/detection/machine_history.h"

namespace moonfence::app {

constexpr Duration kStripSign = std::chrono::seconds(10);

// '.' it answered, '?' that was not known yet, 'x' it was silent, '-' nobody could tell. A sign
// shows the worst of its ten seconds.
[[nodiscard]] std::string strip_of(std::span<const cluster::MachineHistory::Change> changes,
                                   WallTime now);

}  // namespace moonfence::app
