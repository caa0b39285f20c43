#pragma once

// Verdicts as scripts hold them: opaque values made by fence.* alone, inside of the function they
// are the result of. One that comes from anywhere else is refused.

#include <string>

#include <lua.hpp>

#include "policy/lua/opaque.h"
#include "policy/values/verdict.h"

namespace moonfence::policy {

inline constexpr OpaqueType kVerdictType = {"verdict", "return it from pod"};

// The verdict at an index, or a raised error that says what stands there instead. `place` is
// "noobaa.lua:12", where the function that returned it begins.
[[nodiscard]] Verdict take_verdict(lua_State* lua, int index, const std::string& place);
[[nodiscard]] NodeVerdict take_node_verdict(lua_State* lua, int index, const std::string& place);

// The functions of `fence` that make them.
int fence_skip(lua_State* lua);
int fence_forbid(lua_State* lua);
int fence_wait(lua_State* lua);
int fence_delete_pod(lua_State* lua);
int fence_delete_pod_and_attachments(lua_State* lua);
int fence_delete_attachments(lua_State* lua);
int fence_proceed(lua_State* lua);
int fence_hold(lua_State* lua);
int fence_taint_out_of_service(lua_State* lua);

}  // namespace moonfence::policy
