#pragma once

// What every incident needs of the engine; owned by app/, outlives them all.

#include "fence/read/access.h"
#include "fence/record/output.h"
#include "fence/rules/in_force.h"

namespace moonfence::fence {

struct Surroundings {
  Access access;
  Output output;
  InForce in_force;
};

}  // namespace moonfence::fence
