#pragma once

// The single values of a scenario that statements and `--set` change. Private to sim.

#include <string_view>
#include <vector>

#include "sim/ground/plan.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

// False when the name is none of ours.
[[nodiscard]] Result<bool> apply_knob(Plan& plan, const ScenarioLine& line, std::string_view name,
                                      std::string_view value);

// Those of one statement (set, timing, fault); of "" all that `--set` takes.
[[nodiscard]] std::vector<std::string_view> knob_names(std::string_view statement);

}  // namespace moonfence::sim
