#pragma once

// Reading the table that a policy file declares itself with. Everything is read raw and checked;
// what breaks a rule is raised with its full name ("settings.db.type") and the rule.

#include <span>
#include <string>
#include <string_view>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "base/time.h"

namespace moonfence::policy {

// A key that a table may have.
struct Key {
  std::string_view name;
  std::string_view type;  // in the notation of LuaCATS
  std::string_view doc;
  bool required = false;
};

// One table of the declaration: where it is on the stack and what it is called.
struct SpecTable {
  lua_State* lua;
  int index;  // absolute
  std::string name;

  // Raises for a key that is not among `known`.
  void check_keys(std::span<const std::string_view> known) const;
  void check_keys(std::span<const Key> known) const;
  [[nodiscard]] std::string place(std::string_view key) const;
  // Pushes the value, returns its type.
  int push(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;

  // These raise when the value is absent or of another type.
  [[nodiscard]] std::string text(std::string_view key, std::size_t longest) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::size_t longest,
                                    std::string otherwise) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool otherwise) const;
};

// The table on top of the stack; raises when it is none.
[[nodiscard]] SpecTable table_on_top(lua_State* lua, const std::string& name);

[[noreturn]] void raise_spec(lua_State* lua, const std::string& place, const std::string& rule);
// "place must be <wanted>, not <what is at index>".
[[noreturn]] void raise_spec_type(lua_State* lua, const std::string& place,
                                  const std::string& wanted, int index);

// The value on top as seconds: a text such as "30s", or a number of seconds where that is allowed.
[[nodiscard]] Duration duration_on_top(lua_State* lua, const std::string& place,
                                       bool number_allowed);
// Whole seconds as an integer, else a fraction: how scripts see durations.
[[nodiscard]] nlohmann::json seconds_json(Duration duration);

// ^[a-z][a-z0-9<separator>]{0,39}$
[[nodiscard]] bool is_identifier(std::string_view text, char separator);
[[nodiscard]] bool is_semantic_version(std::string_view text);

}  // namespace moonfence::policy
