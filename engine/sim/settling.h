#pragma once

// How long the engine may take, once nothing goes wrong any more, until all is dealt with.

#include <optional>

#include "sim/plan.h"

namespace moonfence::sim {

// Nothing on the wire or in the servers goes wrong by chance.
[[nodiscard]] bool is_calm(const Faults& faults);

// A node that is down is looked at again within the run, by the expiry of its cache entry.
[[nodiscard]] bool looks_again(const Plan& plan);

// From the last disturbance. An incident that gave up inside a disturbance is taken up again when
// its node's cache entry expires, so with an expiry that is longer than a run nothing can be
// demanded after disturbances (nullopt).
[[nodiscard]] std::optional<Duration> settling_time(const Plan& plan);
// The same until every incident is closed: it may wait for replacements that no node has room for.
[[nodiscard]] std::optional<Duration> closing_time(const Plan& plan);

}  // namespace moonfence::sim
