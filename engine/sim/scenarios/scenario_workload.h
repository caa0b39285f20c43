#pragma once

// A workload as a scenario writes it: NAMESPACE/NAME and options. Private to sim.

#include "sim/ground/plan.h"
#include "sim/scenarios/scenario_line.h"

namespace moonfence::sim {

[[nodiscard]] Result<WorkloadPlan> parse_workload(const ScenarioLine& line, WorkloadKind kind);

}  // namespace moonfence::sim
