#pragma once

// The conditions of a node as scripts see them, and what they say is planned for it: the lifecycle
// conditions of KEP-5683, which an administrator or a tool of his sets and clears. Anybody who may
// write a node's status may write them, on any version of Kubernetes: they are a reason to wait,
// never a proof.

#include <array>
#include <string_view>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "policy/lua/views.h"

namespace moonfence::policy {

inline constexpr std::array<std::string_view, 5> kPlannedTypes = {
    "GracefulNodeShutdownInProgress", "DrainInProgress", "Drained", "MaintenancePlanned",
    "MaintenanceInProgress"};

// {TYPE: condition, "types": [TYPE], "unknown": [TYPE]}: a type stands there by its condition when
// that is True; `types` names these, `unknown` those whose writer could not tell. Null when there
// are neither, as on nearly every node.
[[nodiscard]] nlohmann::json planned_of(const nlohmann::json* node);

// node.conditions and node.planned.
void push_node_conditions(lua_State* lua, const View& view);
void push_node_planned(lua_State* lua, const View& view);

[[nodiscard]] const Shape& condition_shape();
[[nodiscard]] const Shape& planned_shape();

}  // namespace moonfence::policy
