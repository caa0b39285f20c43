#include "policy/input/fields.h"

#include <chrono>

#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {

using nlohmann::json;

const Inputs& inputs_of(lua_State* lua) {
  return *Sandbox::of(lua).session.inputs;
}

void push_string(lua_State* lua, const json* value) {
  push_text(lua, text_of(value));
}

void push_integer_or(lua_State* lua, const json* value, lua_Integer otherwise) {
  lua_pushinteger(
      lua, value != nullptr && value->is_number_integer() ? value->get<lua_Integer>() : otherwise);
}

void push_bool(lua_State* lua, bool value) {
  lua_pushboolean(lua, value ? 1 : 0);
}

void push_seconds(lua_State* lua, WallTime time) {
  lua_pushinteger(lua, std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count());
}

void push_time(lua_State* lua, const json* value) {
  const auto time = parse_rfc3339(text_of(value));
  if (time) {
    push_seconds(lua, *time);
  } else {
    lua_pushnil(lua);
  }
}

void push_map(lua_State* lua, const json* value, const char* name) {
  push_view(lua, {.kind = View::Kind::Map, .name = name, .json = value});
}

bool is_true(const json* value) {
  return value != nullptr && value->is_boolean() && *value;
}

const json* ready_condition(const json* object) {
  const json* conditions = member(object, kStatus, "conditions");
  if (conditions == nullptr || !conditions->is_array()) {
    return nullptr;
  }
  for (const json& condition : *conditions) {
    if (text_of(member(&condition, "type")) == "Ready") {
      return &condition;
    }
  }
  return nullptr;
}

}  // namespace moonfence::policy
