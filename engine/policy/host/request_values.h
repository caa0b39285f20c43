#pragma once

// Requests as scripts hold them: opaque values made by fence.http, fence.get, fence.list,
// fence.try, fence.post, fence.create and fence.annotate alone.

#include <string>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "policy/lua/opaque.h"
#include "policy/values/power.h"
#include "policy/values/request.h"

namespace moonfence::policy {

inline constexpr OpaqueType kRequestType = {"request", "return it from fetch or plan under a name"};

int fence_http(lua_State* lua);
int fence_get(lua_State* lua);
int fence_list(lua_State* lua);
int fence_try(lua_State* lua);
int fence_post(lua_State* lua);
int fence_create(lua_State* lua);
int fence_annotate(lua_State* lua);

// What fetch or plan returned: a table of requests by name, or nil; anything else raises, as do
// more than 8, and a name that is answered already. `place` is "x.lua:12: fetch".
[[nodiscard]] Requests take_requests(lua_State* lua, int index, const std::string& place,
                                     const nlohmann::json& answers);

// What off or isolate returned: a request that is_order(), or nil and a text that says why not.
[[nodiscard]] FencerOrder take_order(lua_State* lua, const std::string& place);

}  // namespace moonfence::policy
