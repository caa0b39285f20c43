#pragma once

// A node as a scenario writes it, its BMC, and the storage that can refuse it: names and options.
// Private to sim.

#include "sim/ground/plan.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

// What the line says more of it.
[[nodiscard]] Result<void> parse_node(const ScenarioLine& line, NodePlan& node);
// bmc NODE KIND [of=NODE] [takes=T] [off-takes=T] [on-again=T]
[[nodiscard]] Result<BmcPlan> parse_bmc(const ScenarioLine& line);
// fence-class NAME KIND [takes=T] [lags=T]
[[nodiscard]] Result<FenceClassPlan> parse_fence_class(const ScenarioLine& line);
// world lifting WHO
[[nodiscard]] Result<Lifting> parse_lifting(const ScenarioLine& line);

}  // namespace moonfence::sim
