#pragma once

// Reading the settings that a policy file declares.

#include <lua.hpp>

#include "policy/values/setting.h"

namespace moonfence::policy {

// How much a policy may declare and a binding may set.
inline constexpr std::size_t kMostSettingItems = 256;
inline constexpr std::size_t kLongestSettingText = 1024;

// Reads the table on top of the stack; raises for what breaks a rule.
[[nodiscard]] DeclaredSettings read_settings(lua_State* lua);

}  // namespace moonfence::policy
