#pragma once

// The key `traces` of the engine's configuration: who receives traces of incidents. It stands apart
// from `endpoints`, so no policy reaches it.

#include <optional>
#include <string>

#include <yaml-cpp/yaml.h>

#include "app/settings/settings.h"
#include "base/result.h"

namespace moonfence::app {

// `name` is the key's node.
[[nodiscard]] Result<void> read_traces(const std::string& file, const YAML::Node& name,
                                       const YAML::Node& value, std::optional<TracesSetting>& into);

}  // namespace moonfence::app
