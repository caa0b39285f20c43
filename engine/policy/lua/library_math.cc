// math.*: what a decision needs; no random numbers, a policy's verdict depends on its inputs alone.

#include <array>
#include <cmath>
#include <limits>

#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

// An integer when it fits, else the number itself, as Lua's own floor does.
int push_whole(lua_State* lua, lua_Number whole) {
  if (whole >= -kTwoTo63 && whole < kTwoTo63) {
    lua_pushinteger(lua, static_cast<lua_Integer>(whole));
  } else {
    lua_pushnumber(lua, whole);
  }
  return 1;
}

int math_floor(lua_State* lua) {
  const lua_Number value = number_argument(lua, 1);
  if (lua_isinteger(lua, 1) != 0) {
    lua_settop(lua, 1);
    return 1;
  }
  return push_whole(lua, std::floor(value));
}

int math_ceil(lua_State* lua) {
  const lua_Number value = number_argument(lua, 1);
  if (lua_isinteger(lua, 1) != 0) {
    lua_settop(lua, 1);
    return 1;
  }
  return push_whole(lua, std::ceil(value));
}

int math_abs(lua_State* lua) {
  const lua_Number value = number_argument(lua, 1);
  if (lua_isinteger(lua, 1) != 0) {
    const lua_Integer exact = lua_tointeger(lua, 1);
    if (exact == std::numeric_limits<lua_Integer>::min()) {
      raise(lua, "math.abs: the smallest integer has no positive counterpart");
    }
    lua_pushinteger(lua, exact < 0 ? -exact : exact);
  } else {
    lua_pushnumber(lua, std::fabs(value));
  }
  return 1;
}

int push_extreme(lua_State* lua, bool largest) {
  const int count = lua_gettop(lua);
  int best = 1;
  Sandbox::of(lua).charge(lua, static_cast<std::uint64_t>(count));
  (void)number_argument(lua, 1);
  for (int i = 2; i <= count; ++i) {
    (void)number_argument(lua, i);
    const bool better = largest ? lua_compare(lua, best, i, LUA_OPLT) != 0
                                : lua_compare(lua, i, best, LUA_OPLT) != 0;
    best = better ? i : best;
  }
  lua_pushvalue(lua, best);
  return 1;
}

int math_min(lua_State* lua) {
  return push_extreme(lua, false);
}
int math_max(lua_State* lua) {
  return push_extreme(lua, true);
}

int math_tointeger(lua_State* lua) {
  int exact = 0;
  const lua_Integer value = lua_type(lua, 1) == LUA_TNUMBER ? lua_tointegerx(lua, 1, &exact) : 0;
  if (exact != 0) {
    lua_pushinteger(lua, value);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

void add_constants(lua_State* lua) {
  lua_pushnumber(lua, std::numeric_limits<lua_Number>::infinity());
  lua_setfield(lua, -2, "huge");
  lua_pushinteger(lua, std::numeric_limits<lua_Integer>::max());
  lua_setfield(lua, -2, "maxinteger");
  lua_pushinteger(lua, std::numeric_limits<lua_Integer>::min());
  lua_setfield(lua, -2, "mininteger");
}

constexpr std::array<std::string_view, 3> kConstants = {"huge", "maxinteger", "mininteger"};

constexpr std::array<HostFunction, 6> kMath = {{
    {"floor", math_floor, "(x: number): integer", "The largest integer that is not above x."},
    {"ceil", math_ceil, "(x: number): integer", "The smallest integer that is not below x."},
    {"min", math_min, "(x: number, ...: number): number", "The smallest argument."},
    {"max", math_max, "(x: number, ...: number): number", "The largest argument."},
    {"abs", math_abs, "(x: number): number", "x without its sign."},
    {"tointeger", math_tointeger, "(x: any): integer?", "x as an integer, or nil."},
}};

}  // namespace

const Library& math_library() {
  static constexpr Library kLibrary{
      .name = "math", .functions = kMath, .add_constants = add_constants, .constants = kConstants};
  return kLibrary;
}

}  // namespace moonfence::policy
