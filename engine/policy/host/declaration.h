#pragma once

// What policy{} declares, validated once when a file is loaded. In an evaluation the same call only
// hands over its functions.

#include <optional>
#include <string>

#include <lua.hpp>

#include "policy/host/policy.h"
#include "policy/host/selector.h"
#include "policy/host/settings.h"

namespace moonfence::policy {

struct Declaration {
  std::string name;  // given: what the file's name demands
  std::string version;
  std::string summary;
  std::string doc;
  std::string label_selector;
  LabelSelector selector;
  Needs needs;
  bool needs_by_settings = false;  // a function says what it needs
  DeclaredSettings settings;
  Trigger trigger;
  std::optional<Source> source;
  bool judges_node = false;   // has a node function
  bool fetches = false;       // has a fetch function
  bool node_fetches = false;  // has a node_fetch function
  bool is_fencer = false;     // declared by fencer{}: it has plan and state, and none of the above
  FencerAct act = FencerAct::None;  // it has off, or isolate
};

// Pushes a value of the table that policy{} was called with; nil before.
void push_declared(lua_State* lua, const char* key);
// Whether the value at index is what policy{} returned.
[[nodiscard]] bool is_declaration(lua_State* lua, int index);
// Calls the declaration's `needs`, `trigger` and `source` when they are functions, with these
// settings.
void evaluate_needs(lua_State* lua, Declaration& declaration, const nlohmann::json& settings);
void evaluate_trigger(lua_State* lua, Declaration& declaration, const nlohmann::json& settings);
void evaluate_source(lua_State* lua, Declaration& declaration, const nlohmann::json& settings);
// Pushes a function of the declared source: "plan" or "nodes".
void push_source_function(lua_State* lua, const char* key, const nlohmann::json& settings);

// "noobaa.lua:12", where the function at index begins.
[[nodiscard]] std::string place_of_function(lua_State* lua, int index);

}  // namespace moonfence::policy
