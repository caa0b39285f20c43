#include "app/settings/settings_values.h"

#include "base/text.h"

namespace moonfence::app {
namespace {

// A year. The incident multiplies and adds these; sums and products must stay in range.
constexpr Duration kLongest = std::chrono::hours(8760);

}  // namespace

std::string place(const std::string& file, const YAML::Mark& mark) {
  return mark.is_null() ? file : file + ":" + std::to_string(mark.line + 1);
}

Failure bad(const std::string& file, const YAML::Node& node, const std::string& what,
            const std::string& hint) {
  return failure(Error::Kind::Invalid, place(file, node.Mark()) + ": " + what, hint);
}

Failure unknown_key(const std::string& file, const YAML::Node& name,
                    std::span<const std::string_view> known) {
  const std::string key = name.IsScalar() ? name.Scalar() : "";
  std::string hint;
  for (const std::string_view each : known) {
    hint += hint.empty() ? "known keys: " : ", ";
    hint += each;
  }
  return bad(file, name, "unknown key '" + escaped(key) + "'" + did_you_mean(key, known), hint);
}

Result<void> read_duration(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                           Duration& into) {
  const auto parsed = value.IsScalar() ? parse_duration(value.Scalar()) : std::nullopt;
  if (!parsed) {
    return bad(file, name,
               name.Scalar() + ": '" + escaped(value.IsScalar() ? value.Scalar() : "…") +
                   "' is no duration",
               "write a number with its unit, for example 25s or 1h30m");
  }
  if (*parsed > kLongest) {
    return bad(file, name,
               name.Scalar() + ": " + format_duration(*parsed) + " is longer than " +
                   format_duration(kLongest),
               "nothing here is meant to take longer; cacheExpiry: 0 means never");
  }
  into = *parsed;
  return {};
}

Result<void> read_switch(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                         const std::string& hint, bool& into) {
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  if (word != "on" && word != "off") {
    return bad(file, name, name.Scalar() + ": '" + escaped(word, 32) + "' is neither on nor off",
               hint + "; off is the default");
  }
  into = word == "on";
  return {};
}

bool is_driver_name(const std::string& name) {
  return is_csi_driver_name(name);
}

}  // namespace moonfence::app
