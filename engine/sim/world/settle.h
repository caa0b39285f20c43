#pragma once

// Settling writes down a plan's cluster as it would be after minutes of quiet: nodes Ready, pods
// Running, volumes attached, without living through those minutes.

#include "sim/ground/ground.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {

// Machines and objects. No controller looks yet.
void settle(const Ground& ground, const Plan& plan);

}  // namespace moonfence::sim
