#pragma once

// The `expect` lines of a scenario. Private to sim.

#include <span>
#include <string_view>

#include "sim/scenarios/scenario.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

[[nodiscard]] Result<Expectation> parse_expectation(const ScenarioLine& line,
                                                    std::span<const std::string_view> reasons);

}  // namespace moonfence::sim
