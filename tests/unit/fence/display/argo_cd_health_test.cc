// deploy/monitoring/argo-cd-health.lua on objects as the engine makes them, by the rules of Argo
// CD: the object is the global `obj`, and the answer a table with `status` and `message`.

#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <lua.hpp>

#include "fence/display/incident_object.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const WallTime kOpened = WallTime(1767330000s);

void push(lua_State* lua, const json& value) {
  if (value.is_string()) {
    lua_pushstring(lua, value.get<std::string>().c_str());
  } else if (value.is_number()) {
    lua_pushinteger(lua, value.get<lua_Integer>());
  } else if (value.is_structured()) {
    lua_newtable(lua);
    lua_Integer next = 1;
    for (const auto& [key, each] : value.items()) {
      push(lua, each);
      if (value.is_array()) {
        lua_rawseti(lua, -2, next++);
      } else {
        lua_setfield(lua, -2, key.c_str());
      }
    }
  } else {
    lua_pushnil(lua);
  }
}

// "Healthy: and why".
std::string health_of(const json& object) {
  const std::unique_ptr<lua_State, void (*)(lua_State*)> state(luaL_newstate(), lua_close);
  lua_State* const lua = state.get();
  luaL_openlibs(lua);
  push(lua, object);
  lua_setglobal(lua, "obj");
  if (luaL_dofile(lua, MOONFENCE_SOURCE_DIR "/deploy/monitoring/argo-cd-health.lua") != LUA_OK) {
    ADD_FAILURE() << lua_tostring(lua, -1);
    return {};
  }
  lua_getfield(lua, -1, "status");
  lua_getfield(lua, -2, "message");
  return std::string(lua_tostring(lua, -2)) + ": " + lua_tostring(lua, -1);
}

json object_of(const ShownRecord& record, const std::optional<ShownStand>& stand) {
  return {{"status", status_of(record, stand, json::object(), kOpened + 99s)}};
}

TEST(ArgoCdHealth, an_incident_goes_on_is_stuck_and_is_over) {
  ShownRecord record = {.id = IncidentId("i1"), .node = NodeName("n1"), .opened = kOpened};
  ShownStand stand = {.state = IncidentStatus::State::Held,
                      .reason = audit::Reason::TooManyDown,
                      .text = "9 of 10 are down"};
  EXPECT_EQ(health_of(object_of(record, stand)), "Progressing: 9 of 10 are down");
  stand.stalled = true;
  EXPECT_EQ(health_of(object_of(record, stand)),
            "Degraded: 9 of 10 are down (see `moonfence reason too_many_down`)");
  record.closed = kOpened + 98s;
  EXPECT_EQ(health_of(object_of(record, std::nullopt)),
            "Healthy: The incident is over: settled (see `moonfence reason settled`)");
}

TEST(ArgoCdHealth, one_without_a_status_is_on_its_way) {
  for (const json& object : {json::object(), json{{"status", json::object()}},
                             json{{"status", {{"conditions", json::array()}}}}}) {
    EXPECT_EQ(health_of(object), "Progressing: moonfence has not said how it stands");
  }
}

}  // namespace
}  // namespace moonfence::fence
