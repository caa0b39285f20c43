#pragma once

// The key `brake` of the engine's configuration: limits on how many nodes are fenced.

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "fence/brake/brake.h"

namespace moonfence::app {

// What stands in `value` replaces the defaults in `rules`; `name` is the key's node.
[[nodiscard]] Result<void> read_brake(const std::string& file, const YAML::Node& name,
                                      const YAML::Node& value, fence::BrakeRules& rules);

}  // namespace moonfence::app
