#pragma once

// Mode says how far the engine may go. Several have a say (the binding, the file, the `mode` key of
// the ConfigMap, --mode); the lowest of them is in force.

#include <algorithm>
#include <optional>
#include <string_view>

namespace moonfence::policy {

// In rising order of what is allowed.
enum class Mode {
  Off,      // nothing is looked at
  Observe,  // decide, record, count; never act
  Enforce,
};

[[nodiscard]] constexpr std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::Off:
      return "off";
    case Mode::Observe:
      return "observe";
    case Mode::Enforce:
      return "enforce";
  }
  return "off";
}

[[nodiscard]] constexpr std::optional<Mode> parse_mode(std::string_view text) {
  for (const Mode mode : {Mode::Off, Mode::Observe, Mode::Enforce}) {
    if (text == to_string(mode)) {
      return mode;
    }
  }
  return std::nullopt;
}

[[nodiscard]] constexpr Mode lowest(Mode a, Mode b) {
  return std::min(a, b);
}

}  // namespace moonfence::policy
