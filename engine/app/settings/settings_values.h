#pragma once

// Single values of the engine's configuration, each refused with its place in the file.

#include <algorithm>
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

// `on` or `off`; `hint`: what on takes.
[[nodiscard]] Result<void> read_switch(const std::string& file, const YAML::Node& name,
                                       const YAML::Node& value, const std::string& hint,
                                       bool& into);

// A CSI driver's name is a DNS subdomain of at most 63 characters (CSI specification,
// GetPluginInfo).
[[nodiscard]] bool is_driver_name(const std::string& name);

// Of a mapping; an unknown key is an error. Calls `read(key, name, value)` for each entry.
template <class Read>
Result<void> each_entry(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                        std::span<const std::string_view> known, Read read) {
  if (!value.IsMap()) {
    return bad(file, name, name.Scalar() + ": not a mapping",
               "it consists of `key: value` entries");
  }
  for (const auto& entry : value) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return unknown_key(file, entry.first, known);
    }
    if (auto done = read(key, entry.first, entry.second); !done) {
      return done;
    }
  }
  return {};
}

}  // namespace moonfence::app
