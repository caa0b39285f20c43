#pragma once

// The policies that come with the engine, compiled in from policies/NAME/policy.lua.

#include <span>
#include <string_view>

namespace moonfence::policy {

struct BuiltinPolicy {
  std::string_view name;  // "noobaa"
  std::string_view file;  // "noobaa/policy.lua", as Policy::load takes it
  std::string_view source;
};

// In the order of their names.
[[nodiscard]] std::span<const BuiltinPolicy> builtin_policies();

}  // namespace moonfence::policy
