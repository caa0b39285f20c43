// Values that a binding gives to the settings of a policy.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/text.h"
#include "policy/host/settings.h"
#include "policy/lua/spec.h"
#include "policy/values/setting.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using Type = Setting::Type;

constexpr std::size_t kLongestShown = 64;
constexpr double kLongestSeconds = 1e9;

// What a value is, for messages: never more than a glimpse of it.
std::string shown(const json& value) {
  if (value.is_string()) {
    return "'" + escaped(value.get_ref<const std::string&>(), kLongestShown) + "'";
  }
  if (value.is_array()) {
    return "a list";
  }
  if (value.is_object()) {
    return "a map";
  }
  return value.is_null() ? "null" : value.dump();
}

// A rule that a value breaks, as the end of "setting 'x' is 7, ...".
Failure broken(const std::string& rule) {
  return failure(Error::Kind::Invalid, rule);
}

Result<json> text_of(const json& value) {
  if (!value.is_string()) {
    return broken("but must be a text");
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kLongestSettingText) {
    return broken("but must have at most " + std::to_string(kLongestSettingText) + " bytes");
  }
  if (value.dump(-1, ' ', false, json::error_handler_t::replace) !=
      value.dump(-1, ' ', false, json::error_handler_t::ignore)) {
    return broken("but must be valid UTF-8");
  }
  return value;
}

Result<json> integer_of(const json& value) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) {
    return broken("but must be an integer");
  }
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest) {
    return broken("but must be at most " + std::to_string(kLargest));
  }
  return json(value.get<std::int64_t>());
}

Result<json> number_of(const json& value) {
  if (value.is_number_integer()) {
    return integer_of(value);
  }
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return broken("but must be a finite number");
  }
  return value;
}

Result<json> duration_of(const json& value) {
  if (!value.is_string()) {
    return broken("but must be a duration, a text such as 30s");
  }
  const auto& text = value.get_ref<const std::string&>();
  const auto parsed = text.size() > kLongestShown ? std::nullopt : parse_duration(text);
  if (!parsed) {
    return broken("which is no duration; write a number with a unit, such as 30s");
  }
  if (std::chrono::duration<double>(*parsed).count() > kLongestSeconds) {
    return broken("but must be at most 1000000000 seconds");
  }
  return seconds_json(*parsed);
}

Result<json> plain_of(Type type, const json& value) {
  switch (type) {
    case Type::String:
    case Type::Enum:
      return text_of(value);
    case Type::Integer:
      return integer_of(value);
    case Type::Number:
      return number_of(value);
    case Type::Boolean:
      if (!value.is_boolean()) {
        return broken("but must be true or false");
      }
      return value;
    case Type::Duration:
      return duration_of(value);
    case Type::List:
      break;
  }
  return broken("but must be a list");
}

Result<json> list_of(Type of, const json& value) {
  if (!value.is_array()) {
    return broken("but must be a list");
  }
  if (value.size() > kMostSettingItems) {
    return broken("of " + std::to_string(value.size()) + " items; it may have at most " +
                  std::to_string(kMostSettingItems));
  }
  json list = json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    auto item = plain_of(of, value[i]);
    if (!item) {
      return broken("whose item " + std::to_string(i + 1) + " is " + shown(value[i]) + ", " +
                    item.error().text);
    }
    list.push_back(std::move(*item));
  }
  return list;
}

std::string limit_text(const Setting& setting, double limit) {
  if (setting.type == Type::Duration) {
    return format_duration(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(limit)));
  }
  constexpr double kExact = 1e15;
  const bool whole = std::abs(limit) < kExact && std::trunc(limit) == limit;
  return whole ? std::to_string(static_cast<std::int64_t>(limit)) : json(limit).dump();
}

// A limit as a value of the setting's type.
json limit_value(const Setting& setting, double limit) {
  constexpr double kIntegerEdge = 9.2e18;
  if (setting.type == Type::Integer && std::abs(limit) < kIntegerEdge) {
    return static_cast<std::int64_t>(limit);
  }
  if (setting.type == Type::Duration) {
    return seconds_json(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(limit)));
  }
  return limit;
}

// Moves a value into its range where that is allowed; refuses it otherwise.
Result<json> bounded(const Setting& setting, const std::string& name, const json& given, json value,
                     std::vector<std::string>& notices) {
  for (const bool lower : {true, false}) {
    const auto& limit = lower ? setting.min : setting.max;
    if (!limit || (lower ? value.get<double>() >= *limit : value.get<double>() <= *limit)) {
      continue;
    }
    const std::string rule =
        std::string(lower ? "below its min " : "above its max ") + limit_text(setting, *limit);
    if (!setting.clamp) {
      return broken("which is " + rule);
    }
    std::string notice = "setting '";
    notice.append(name).append("' is ").append(shown(given)).append(", ").append(rule);
    notice.append(": ").append(limit_text(setting, *limit)).append(" is used");
    notices.push_back(std::move(notice));
    return limit_value(setting, *limit);
  }
  return value;
}

Result<json> settled(const Setting& setting, const std::string& name, const json& given,
                     std::vector<std::string>& notices) {
  if (setting.type == Type::List) {
    return list_of(setting.of, given);
  }
  auto value = plain_of(setting.type, given);
  if (!value) {
    return value;
  }
  if (setting.type == Type::Enum) {
    const auto& word = given.get_ref<const std::string&>();
    if (std::find(setting.values.begin(), setting.values.end(), word) == setting.values.end()) {
      const std::vector<std::string_view> known(setting.values.begin(), setting.values.end());
      return broken("which is not one of: " + joined(setting.values, ", ") +
                    did_you_mean(word, known));
    }
  }
  return bounded(setting, name, given, std::move(*value), notices);
}

std::string unknown_setting(const std::string& name, const DeclaredSettings& settings) {
  std::vector<std::string_view> known;
  for (const auto& [each, setting] : settings) {
    known.emplace_back(each);
  }
  return "unknown setting '" + escaped(name, kLongestShown) + "'" +
         (known.empty() ? "; the policy declares none" : did_you_mean(name, known));
}

}  // namespace

json default_values(const DeclaredSettings& settings) {
  json values = json::object();
  for (const auto& [name, setting] : settings) {
    values[name] = setting.otherwise;
  }
  return values;
}

Result<SettingValues> settle(const DeclaredSettings& settings, const json& given) {
  constexpr std::size_t kMostFaults = 4;
  SettingValues result{.values = default_values(settings)};
  if (given.is_null()) {
    return result;
  }
  if (!given.is_object()) {
    return failure(Error::Kind::Invalid, "settings is " + shown(given) + ", but must be a map");
  }
  std::vector<std::string> faults;
  for (const auto& [name, value] : given.items()) {
    const auto declared = settings.find(name);
    if (declared == settings.end()) {
      faults.push_back(unknown_setting(name, settings));
    } else if (auto one = settled(declared->second, name, value, result.notices); !one) {
      faults.push_back("setting '" + name + "' is " + shown(value) + ", " + one.error().text);
    } else {
      result.values[name] = std::move(*one);
    }
    if (faults.size() == kMostFaults) {
      break;
    }
  }
  if (!faults.empty()) {
    return failure(Error::Kind::Invalid, joined(faults, "; "));
  }
  return result;
}

}  // namespace moonfence::policy
