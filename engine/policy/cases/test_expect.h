#pragma once

// What a case expects of its policy: the table `expect`.

#include <string>
#include <string_view>
#include <vector>

#include <lua.hpp>

#include "policy/cases/test_file.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {

// Reads the table on top of the stack, removes it, and raises for what breaks a rule. `place` is
// "case 'x'.expect".
[[nodiscard]] Expectation read_expectation(lua_State* lua, const std::string& place);

// A list of texts; empty when the key is absent. Raises for anything else.
[[nodiscard]] std::vector<std::string> read_texts(lua_State* lua, const SpecTable& table,
                                                  std::string_view key);

}  // namespace moonfence::policy
