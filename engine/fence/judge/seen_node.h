#pragma once

// What policies see of a reading of their node beside the object. Pure.

#include <optional>

#include "base/time.h"
#include "cluster/detection/kernel.h"
#include "fence/rules/reading.h"
#include "policy/values/facts.h"

namespace moonfence::fence {

// For how long the node's Lease had stood still at least when the reading was sent; nullopt: it was
// not read.
[[nodiscard]] std::optional<Duration> lease_age_of(const Reading& reading);

[[nodiscard]] policy::Machine machine_of(cluster::Kernel kernel);

}  // namespace moonfence::fence
