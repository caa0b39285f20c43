#include "app/settings/brake_settings.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "app/settings/settings_values.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using fence::BrakeRules;
using fence::Limit;

constexpr std::array<std::string_view, 8> kKeys = {
    "coolDown", "exclude", "maxAtOnce", "maxDown", "maxPerWindow", "stormMemory", "window", "zone"};
constexpr std::array<std::string_view, 4> kZoneKeys = {"maxAtOnce", "maxDown", "maxPerWindow",
                                                       "minDown"};
constexpr std::int64_t kMostNodes = 1'000'000;

// Digits alone; nullopt for anything else and for what no cluster has.
std::optional<std::int64_t> read_number(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && number <= kMostNodes && text.front() != '+' ? std::optional(number)
                                                                             : std::nullopt;
}

std::optional<Limit> parse_limit(std::string_view text) {
  if (text == "off") {
    return Limit::off();
  }
  const bool percent = text.ends_with('%');
  const auto number = read_number(text.substr(0, text.size() - (percent ? 1 : 0)));
  // 0 might be meant as "none may be fenced" or as "no limit": whoever means one must not get the
  // other.
  if (!number || *number == 0 || (percent && *number > 100)) {
    return std::nullopt;
  }
  return percent ? Limit::share(*number) : Limit::of(*number);
}

Result<void> read_limit(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                        Limit& into) {
  const auto parsed = value.IsScalar() ? parse_limit(value.Scalar()) : std::nullopt;
  if (!parsed) {
    return bad(
        file, name,
        name.Scalar() + ": '" + escaped(value.IsScalar() ? value.Scalar() : "…") + "' is no limit",
        "write a number of nodes from 1, a share such as 50%, or off for no limit; to stop "
        "everything set the key mode of the policies to off");
  }
  into = *parsed;
  return {};
}

Result<void> read_zone_entry(const std::string& file, const std::string& key,
                             const YAML::Node& name, const YAML::Node& value, BrakeRules& rules) {
  if (key == "maxDown") {
    return read_limit(file, name, value, rules.zone_max_down);
  }
  if (key == "maxAtOnce") {
    return read_limit(file, name, value, rules.zone.at_once);
  }
  if (key == "maxPerWindow") {
    return read_limit(file, name, value, rules.zone.per_window);
  }
  const auto nodes = value.IsScalar() ? read_number(value.Scalar()) : std::nullopt;
  if (!nodes) {
    return bad(file, name, "minDown: not a number of nodes", "the default is 2");
  }
  rules.zone_min_down = *nodes;
  return {};
}

// `key` or `key=value`, each a label of nodes that are not counted.
Result<void> read_exclusions(const std::string& file, const YAML::Node& name,
                             const YAML::Node& value, std::vector<cluster::LabelMatch>& into) {
  if (!value.IsSequence()) {
    return bad(file, name, "exclude: not a list", "write [key, other-key=value], labels of nodes");
  }
  for (const YAML::Node& entry : value) {
    const std::string text = entry.IsScalar() ? entry.Scalar() : "";
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    if (key.empty() || key.find_first_of(" !,()") != std::string::npos) {
      return bad(file, entry, "exclude: '" + escaped(text) + "' is no label",
                 "write key or key=value; a node that carries one of them is not counted");
    }
    into.push_back({.key = key,
                    .value = equals == std::string::npos ? std::nullopt
                                                         : std::optional(text.substr(equals + 1))});
  }
  return {};
}

Result<void> read_brake_entry(const std::string& file, const std::string& key,
                              const YAML::Node& name, const YAML::Node& value, BrakeRules& rules) {
  if (key == "maxDown") {
    return read_limit(file, name, value, rules.max_down);
  }
  if (key == "maxAtOnce") {
    return read_limit(file, name, value, rules.cluster.at_once);
  }
  if (key == "maxPerWindow") {
    return read_limit(file, name, value, rules.cluster.per_window);
  }
  if (key == "window") {
    return read_duration(file, name, value, rules.window);
  }
  if (key == "stormMemory") {
    return read_duration(file, name, value, rules.memory);
  }
  if (key == "exclude") {
    return read_exclusions(file, name, value, rules.exclude);
  }
  if (key == "coolDown") {
    return read_duration(file, name, value, rules.cool_down);
  }
  return each_entry(file, name, value, kZoneKeys,
                    [&](const std::string& inner, const auto& inner_name, const auto& inner_value) {
                      return read_zone_entry(file, inner, inner_name, inner_value, rules);
                    });
}

}  // namespace

Result<void> read_brake(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                        BrakeRules& rules) {
  auto read = each_entry(file, name, value, kKeys,
                         [&](const std::string& key, const auto& key_name, const auto& key_value) {
                           return read_brake_entry(file, key, key_name, key_value, rules);
                         });
  if (read && rules.memory < rules.window) {
    return bad(file, name, "brake: stormMemory is shorter than the window", "the default is 24h");
  }
  if (read && rules.window <= Duration::zero()) {
    return bad(file, name, "brake: window is empty", "the default is 10m; maxPerWindow: off");
  }
  return read;
}

}  // namespace moonfence::app
