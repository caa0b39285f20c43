#pragma once

// A node as a scenario writes it, and its BMC: its name and options. Private to sim.

#include "sim/ground/plan.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

// What the line says more of it.
[[nodiscard]] Result<void> parse_node(const ScenarioLine& line, NodePlan& node);
// bmc NODE KIND [of=NODE] [takes=T] [off-takes=T] [on-again=T]
[[nodiscard]] Result<BmcPlan> parse_bmc(const ScenarioLine& line);

}  // namespace moonfence::sim
