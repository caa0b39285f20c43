#pragma once

// Lua tables of a test file as JSON. A table with the keys 1 to n is a list, one with names is an
// object, an empty one is an object. Everything else is refused with its place; cycles end at the
// bound on depth.

#include <string>

#include <lua.hpp>
#include <nlohmann/json.hpp>

namespace moonfence::policy {

constexpr int kTestValueDepth = 32;

// Raises for what has no JSON. `place` stands in messages: "case 'x': patch".
[[nodiscard]] nlohmann::json json_at(lua_State* lua, int index, const std::string& place);

}  // namespace moonfence::policy
