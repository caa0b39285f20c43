#pragma once

// The scenarios that come with moonfence, compiled in from sim/scenarios/NAME.txt.

#include <span>
#include <string_view>

namespace moonfence::sim {

struct BuiltinScenario {
  std::string_view name;  // "node-loss"
  std::string_view text;
};

// In the order of their names.
[[nodiscard]] std::span<const BuiltinScenario> builtin_scenarios();

}  // namespace moonfence::sim
