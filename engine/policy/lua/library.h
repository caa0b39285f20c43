#pragma once

// What a policy can call. Every function is ours: it charges for the work it does, never runs a
// script's metamethod, and stands in one of the tables below, from which the environment, its
// "did you mean" and the reference documentation are made. None of Lua's own libraries is opened.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <lua.hpp>

namespace moonfence::policy {

struct HostFunction {
  const char* name = "";
  lua_CFunction body = nullptr;
  // Its arguments and results in the notation of LuaCATS: "(s: string, i?: integer): string". "" of
  // what scripts never name.
  const char* signature = "";
  const char* doc = "";
};

struct Library {
  const char* name = "";  // "" for the globals
  std::span<const HostFunction> functions = {};
  void (*add_constants)(lua_State* lua) = nullptr;  // sets fields of the table on top
  std::span<const std::string_view> constants = {};
};

[[nodiscard]] const Library& base_library();
[[nodiscard]] const Library& string_library();
[[nodiscard]] const Library& table_library();
[[nodiscard]] const Library& math_library();
[[nodiscard]] const Library& log_library();
[[nodiscard]] const Library& fence_library();
[[nodiscard]] const Library& declaration_library();

// All of them in the order of the documentation, those of globals first.
[[nodiscard]] std::array<const Library*, 7> libraries();

// Pushes the environment of a chunk: an empty table that reads through to the functions above and
// raises on unknown names and on every write; each is made when it is first named, which costs as
// much as a call. Also sets the metatable of strings. `more` are global functions for files of
// another kind than policies.
void push_environment(lua_State* lua, const Library* more = nullptr);

// Raises "file:line: text". The line is where the script called the running host function.
[[noreturn]] void raise(lua_State* lua, const std::string& text);
// The name the script called the running host function by: "string.sub".
[[nodiscard]] std::string function_name(lua_State* lua);
// Raises "string.sub: argument 2 must be an integer, not a table".
[[noreturn]] void raise_argument(lua_State* lua, int index, const std::string& wanted);

// Arguments of the running host function; each raises when the argument is of another type. Texts
// and numbers are not converted into one another.
[[nodiscard]] std::string_view text_argument(lua_State* lua, int index);
[[nodiscard]] std::string_view text_argument(lua_State* lua, int index, std::string_view otherwise);
[[nodiscard]] lua_Integer integer_argument(lua_State* lua, int index);
[[nodiscard]] lua_Integer integer_argument(lua_State* lua, int index, lua_Integer otherwise);
[[nodiscard]] lua_Number number_argument(lua_State* lua, int index);
void table_argument(lua_State* lua, int index);
void function_argument(lua_State* lua, int index);

// "nil", "a table", "an integer", "pod.labels": what a value is, for messages. Never an address.
[[nodiscard]] std::string described(lua_State* lua, int index);
// The text of string.format's %s and of tostring. Never an address.
[[nodiscard]] std::string shown(lua_State* lua, int index);

void push_text(lua_State* lua, std::string_view text);
// A function for the environment: `function` outlives the state.
void push_function(lua_State* lua, const HostFunction& function, const Library& library);
// The text at an index that is known to hold one.
[[nodiscard]] std::string_view text_at(lua_State* lua, int index);

}  // namespace moonfence::policy
