#pragma once

// Steps and the requests that set them off, as scenarios write them. Private to sim.

#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

// Verb, target and options from that word on.
[[nodiscard]] Result<Step> parse_step(const ScenarioLine& line, std::size_t first);
// Kind and subject of a request: two words.
[[nodiscard]] Result<RequestPattern> parse_pattern(const ScenarioLine& line, std::size_t first);

}  // namespace moonfence::sim
