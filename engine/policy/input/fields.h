#pragma once

// How the fields of input objects are pushed: what the API server leaves out or has in another type
// becomes an empty text, false, zero or nil, never an error.

#include <string_view>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "policy/input/inputs.h"
#include "policy/lua/views.h"

namespace moonfence::policy {

[[nodiscard]] const Inputs& inputs_of(lua_State* lua);

void push_string(lua_State* lua, const nlohmann::json* value);  // "" for what is no text
void push_integer_or(lua_State* lua, const nlohmann::json* value, lua_Integer otherwise);
void push_bool(lua_State* lua, bool value);
void push_seconds(lua_State* lua, WallTime time);
// Unix seconds; nil when absent. Never 0: a time that is not known must not look long past.
void push_time(lua_State* lua, const nlohmann::json* value);
void push_map(lua_State* lua, const nlohmann::json* value, const char* name);

[[nodiscard]] bool is_true(const nlohmann::json* value);
// The Ready condition of a pod or a node; null without one.
[[nodiscard]] const nlohmann::json* ready_condition(const nlohmann::json* object);

// A field that is one text of the object's JSON.
template <const std::string_view& kKey>
void push_text_member(lua_State* lua, const View& view) {
  push_string(lua, member(view.json, kKey));
}
template <const std::string_view& kGroup, const std::string_view& kKey>
void push_text_below(lua_State* lua, const View& view) {
  push_string(lua, member(view.json, kGroup, kKey));
}

inline constexpr std::string_view kMetadata = "metadata";
inline constexpr std::string_view kSpec = "spec";
inline constexpr std::string_view kStatus = "status";
inline constexpr std::string_view kName = "name";
inline constexpr std::string_view kNamespace = "namespace";
inline constexpr std::string_view kUid = "uid";
inline constexpr std::string_view kPhase = "phase";
inline constexpr std::string_view kReason = "reason";
inline constexpr std::string_view kNodeName = "nodeName";

}  // namespace moonfence::policy
