#pragma once

// The policies and fencers that come with the engine, compiled in from policies/NAME/policy.lua and
// fencers/NAME/fencer.lua.

#include <span>
#include <string>
#include <string_view>

namespace moonfence::policy {

struct BuiltinPolicy {
  std::string_view name;  // "noobaa"
  std::string_view source;

  // "noobaa/policy.lua", as Policy::load takes it.
  [[nodiscard]] std::string file() const { return std::string(name) + "/policy.lua"; }
};

// In the order of their names.
[[nodiscard]] std::span<const BuiltinPolicy> builtin_policies();
[[nodiscard]] std::span<const BuiltinPolicy> builtin_fencers();

}  // namespace moonfence::policy
