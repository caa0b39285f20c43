#pragma once

// How long the engine may take, once nothing goes wrong any more, until all is dealt with.

#include <optional>

#include "sim/ground/plan.h"

namespace moonfence::sim {

// Nothing on the wire or in the servers goes wrong by chance.
[[nodiscard]] bool is_calm(const Faults& faults);

// From the last disturbance: nothing is given up, whatever went wrong and for how long.
[[nodiscard]] Duration settling_time(const Plan& plan);
// The same until every incident is closed: it may wait for replacements that no node has room for.
[[nodiscard]] Duration closing_time(const Plan& plan);

}  // namespace moonfence::sim
