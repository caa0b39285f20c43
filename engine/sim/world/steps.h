#pragma once

// The steps of a plan that change objects of the cluster, as somebody with a kubectl would.

#include "sim/ground/ground.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {

// False when its target does not exist, or it is no such step.
bool change_objects(const Ground& ground, const Step& step);

}  // namespace moonfence::sim
