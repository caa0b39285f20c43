#pragma once

// One setting that a policy declares and a binding may set: typed, bounded, with a default.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace moonfence::policy {

struct Setting {
  enum class Type { String, Integer, Number, Boolean, Duration, Enum, List };
  Type type = Type::String;
  Type of = Type::String;     // of List: String, Integer or Number
  std::optional<double> min;  // of Integer, Number, Duration (seconds)
  std::optional<double> max;
  std::vector<std::string> values;  // of Enum
  bool clamp = false;  // a value out of range moves to the limit instead of being refused
  std::string doc;
  nlohmann::json otherwise;  // the default; a duration as its number of seconds
};

using DeclaredSettings = std::map<std::string, Setting>;

// As policy files write it: "string", "duration".
[[nodiscard]] std::string_view to_string(Setting::Type type);

// The object that a script sees when nothing is set.
[[nodiscard]] nlohmann::json default_values(const DeclaredSettings& settings);

struct SettingValues {
  nlohmann::json values;             // every declared setting; a duration as its number of seconds
  std::vector<std::string> notices;  // of values that were moved to a limit
};

// What `given`, an object of plain JSON, makes of the declared settings. The error names every
// setting that breaks a rule, with its value and the rule.
[[nodiscard]] Result<SettingValues> settle(const DeclaredSettings& settings,
                                           const nlohmann::json& given);

}  // namespace moonfence::policy
