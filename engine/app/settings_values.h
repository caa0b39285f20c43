#pragma once

// Single values of the engine's configuration, each refused with its place in the file.

#include <span>
#include <string>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "base/time.h"

namespace moonfence::app {

[[nodiscard]] std::string place(const std::string& file, const YAML::Mark& mark);
[[nodiscard]] Failure bad(const std::string& file, const YAML::Node& node, const std::string& what,
                          const std::string& hint);
[[nodiscard]] Failure unknown_key(const std::string& file, const YAML::Node& name,
                                  std::span<const std::string_view> known);

// `name` is the key's node: an empty value stands nowhere, or in the next line.
[[nodiscard]] Result<void> read_duration(const std::string& file, const YAML::Node& name,
                                         const YAML::Node& value, Duration& into);

}  // namespace moonfence::app
