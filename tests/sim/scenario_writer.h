#pragma once

#include <string>

#include "sim/ground/plan.h"

namespace moonfence::sim {

// A text that parses to the same plan: how a random seed is shown and kept. What is as by default
// is left out.
[[nodiscard]] std::string write_scenario(const Plan& plan);

}  // namespace moonfence::sim
