#pragma once

// What a simulation tells about policies: when ConfigMap moonfence-policies is edited, and what of
// it is in force, as the engine reports it in ConfigMap moonfence-status.

#include <string>
#include <vector>

#include "sim/ground/story.h"
#include "sim/store/object.h"

namespace moonfence::app {

// What a write of a ConfigMap says; empty for others and when nothing of it is news.
[[nodiscard]] std::vector<sim::Happening> policy_news(const sim::Change& change, Duration at);

}  // namespace moonfence::app
