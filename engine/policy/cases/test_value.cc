#include "policy/cases/test_value.h"

#include <cmath>

#include "base/text.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

// What a value costs in memory is outside of Lua's: at 20,000,000 units a file gets 100,000 values
// and 20 MB of text.
constexpr std::uint64_t kNodeUnits = 200;

json value_at(lua_State* lua, int index, const std::string& place, int depth);

// The entries of the table at `index`, which stays where it is.
json table_at(lua_State* lua, int index, const std::string& place, int depth) {
  if (depth >= kTestValueDepth) {
    raise(lua, place + " nests deeper than " + std::to_string(kTestValueDepth) +
                   " tables (a table that holds itself?)");
  }
  luaL_checkstack(lua, 4, "test value");
  lua_Integer positions = 0;
  json object = json::object();
  lua_pushnil(lua);
  while (lua_next(lua, index) != 0) {
    const int value = lua_gettop(lua);
    if (lua_type(lua, value - 1) == LUA_TSTRING) {
      const std::string key(text_at(lua, value - 1));
      Sandbox::of(lua).charge(lua, key.size());
      object[key] = value_at(lua, value, place + "." + escaped(key, 64), depth + 1);
    } else if (lua_isinteger(lua, value - 1) != 0) {
      ++positions;
    } else {
      raise(lua, place + " has " + described(lua, value - 1) +
                     " as a key; keys are names, or 1 to n for a list");
    }
    lua_settop(lua, value - 1);
  }
  if (positions == 0) {
    return object;
  }
  if (!object.empty()) {
    raise(lua, place + " mixes a list with names such as '" + escaped(object.begin().key(), 64) +
                   "'; make it one of both");
  }
  json list = json::array();
  for (lua_Integer i = 1; i <= positions; ++i) {
    if (lua_rawgeti(lua, index, i) == LUA_TNIL) {
      raise(lua, place + " is a list without its entry " + std::to_string(i) +
                     "; number the entries from 1 without gaps");
    }
    list.push_back(
        value_at(lua, lua_gettop(lua), place + "[" + std::to_string(i) + "]", depth + 1));
    lua_pop(lua, 1);
  }
  return list;
}

json value_at(lua_State* lua, int index, const std::string& place, int depth) {
  Sandbox::of(lua).charge(lua, kNodeUnits);
  switch (lua_type(lua, index)) {
    case LUA_TBOOLEAN:
      return lua_toboolean(lua, index) != 0;
    case LUA_TNUMBER:
      if (lua_isinteger(lua, index) != 0) {
        return lua_tointeger(lua, index);
      }
      if (!std::isfinite(lua_tonumber(lua, index))) {
        raise(lua, place + " is not a finite number");
      }
      return lua_tonumber(lua, index);
    case LUA_TSTRING:
      Sandbox::of(lua).charge(lua, text_at(lua, index).size());
      return std::string(text_at(lua, index));
    case LUA_TTABLE:
      return table_at(lua, index, place, depth);
    default:
      raise(lua, place + " is " + described(lua, index) +
                     "; a test holds texts, numbers, true, false and tables of them");
  }
}

}  // namespace

json json_at(lua_State* lua, int index, const std::string& place) {
  return value_at(lua, lua_absindex(lua, index), place, 0);
}

}  // namespace moonfence::policy
