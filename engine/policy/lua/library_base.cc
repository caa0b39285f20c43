// Globals: type, tostring, tonumber, ipairs, pairs, next, select, error, assert, duration; and log.

#include <array>
#include <chrono>
#include <limits>

#include "base/text.h"
#include "base/time.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/trace.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

constexpr std::size_t kLogLines = 20;
constexpr std::size_t kLogLine = 1024;

int base_type(lua_State* lua) {
  if (lua_gettop(lua) == 0) {
    raise_argument(lua, 1, "a value");
  }
  lua_pushstring(lua, luaL_typename(lua, 1));
  return 1;
}

int base_tostring(lua_State* lua) {
  if (lua_type(lua, 1) == LUA_TSTRING) {
    lua_settop(lua, 1);
    return 1;
  }
  push_text(lua, shown(lua, 1));
  return 1;
}

// Digits of a base from 2 to 36, with sign and surrounding space; nothing else.
bool parse_in_base(std::string_view text, lua_Integer base, lua_Integer& value) {
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  value = 0;
  for (const char c : lower_cased(text)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 36;
    if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      return false;
    }
  }
  value = negative ? -value : value;
  return !text.empty();
}

int base_tonumber(lua_State* lua) {
  if (!lua_isnoneornil(lua, 2)) {
    const std::string_view text = text_argument(lua, 1);
    const lua_Integer base = integer_argument(lua, 2);
    if (base < 2 || base > 36) {
      raise(lua, "tonumber: argument 2 must be from 2 to 36");
    }
    Sandbox::of(lua).charge(lua, text.size());
    lua_Integer value = 0;
    if (parse_in_base(text, base, value)) {
      lua_pushinteger(lua, value);
    } else {
      lua_pushnil(lua);
    }
    return 1;
  }
  if (lua_type(lua, 1) == LUA_TNUMBER) {
    lua_settop(lua, 1);
    return 1;
  }
  if (lua_type(lua, 1) == LUA_TSTRING) {
    const std::string_view text = text_at(lua, 1);
    Sandbox::of(lua).charge(lua, text.size() / 8);
    if (lua_stringtonumber(lua, text.data()) == text.size() + 1) {
      return 1;
    }
  }
  lua_pushnil(lua);
  return 1;
}

int base_next(lua_State* lua) {
  table_argument(lua, 1);
  lua_settop(lua, 2);
  if (lua_next(lua, 1) != 0) {
    return 2;
  }
  lua_pushnil(lua);
  return 1;
}

constexpr HostFunction kNext = {"next", base_next, "(t: table, key?: any): any, any",
                                "The entry of t after key, or nil; order is not defined."};

int base_pairs(lua_State* lua) {
  if (to_view(lua, 1) != nullptr) {
    push_view_iterator(lua);
  } else {
    table_argument(lua, 1);
    push_function(lua, kNext, base_library());
  }
  lua_pushvalue(lua, 1);
  lua_pushnil(lua);
  return 3;
}

int step_ipairs(lua_State* lua) {
  const lua_Integer last = integer_argument(lua, 2);
  if (last < 0 || last == std::numeric_limits<lua_Integer>::max()) {
    raise_argument(lua, 2, "a position of the list");
  }
  lua_pushinteger(lua, last + 1);
  if (const View* view = to_view(lua, 1)) {
    push_element(lua, *view, last + 1);
    trace_read(lua, *view, last + 1);
  } else {
    table_argument(lua, 1);
    lua_rawgeti(lua, 1, last + 1);
  }
  return lua_isnil(lua, -1) ? 1 : 2;
}

constexpr HostFunction kIpairsStep = {"ipairs", step_ipairs, "", ""};

int base_ipairs(lua_State* lua) {
  if (const View* view = to_view(lua, 1)) {
    if (!is_list(*view)) {
      raise_argument(lua, 1, "a list");
    }
  } else if (lua_type(lua, 1) != LUA_TTABLE) {
    raise_argument(lua, 1, "a list");
  }
  push_function(lua, kIpairsStep, base_library());
  lua_pushvalue(lua, 1);
  lua_pushinteger(lua, 0);
  return 3;
}

int base_select(lua_State* lua) {
  const int count = lua_gettop(lua);
  if (lua_type(lua, 1) == LUA_TSTRING && text_at(lua, 1) == "#") {
    lua_pushinteger(lua, count - 1);
    return 1;
  }
  lua_Integer from = integer_argument(lua, 1);
  if (from < 0) {
    from = count + from;
  }
  if (from < 1) {
    raise(lua, "select: argument 1 is out of range");
  }
  return from >= count ? 0 : count - static_cast<int>(from);
}

int base_error(lua_State* lua) {
  const lua_Integer level = integer_argument(lua, 2, 1);
  lua_settop(lua, 1);
  if (lua_type(lua, 1) == LUA_TSTRING && level > 0) {
    luaL_where(lua, level > 2 ? 2 : static_cast<int>(level));
    lua_pushvalue(lua, 1);
    lua_concat(lua, 2);
  }
  return lua_error(lua);
}

int base_assert(lua_State* lua) {
  if (lua_toboolean(lua, 1) != 0) {
    return lua_gettop(lua);
  }
  if (lua_gettop(lua) == 0) {
    raise_argument(lua, 1, "a value");
  }
  if (lua_type(lua, 2) == LUA_TSTRING) {
    raise(lua, std::string(text_at(lua, 2).substr(0, 1024)));
  }
  raise(lua, "assertion failed");
}

// Seconds: an integer when they are whole.
int base_duration(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const auto parsed = parse_duration(text.substr(0, 64));
  if (!parsed || text.size() > 64) {
    raise(lua, "duration: '" + escaped(text, 64) +
                   "' is no duration; write a number with a unit, such as 90s or 1h30m");
  }
  const auto whole = std::chrono::floor<std::chrono::seconds>(*parsed);
  if (whole == *parsed) {
    lua_pushinteger(lua, whole.count());
  } else {
    lua_pushnumber(lua, std::chrono::duration<double>(*parsed).count());
  }
  return 1;
}

int write_log(lua_State* lua, std::string_view level) {
  const std::string_view text = text_argument(lua, 1);
  Session& session = Sandbox::of(lua).session;
  if (session.log.size() >= kLogLines) {
    ++session.log_dropped;
    return 0;
  }
  Sandbox::of(lua).charge(lua, kLogLine / 8);
  session.log.push_back(std::string(level) + ": " + escaped(text, kLogLine - 16));
  return 0;
}

int log_info(lua_State* lua) {
  return write_log(lua, "info");
}
int log_warn(lua_State* lua) {
  return write_log(lua, "warn");
}

constexpr std::array<HostFunction, 10> kBase = {{
    {"type", base_type, "(v: any): string", "The name of the type of v."},
    {"tostring", base_tostring, "(v: any): string", "A text for v; never an address."},
    {"tonumber", base_tonumber, "(v: any, base?: integer): number?",
     "The number v stands for, or nil."},
    {"ipairs", base_ipairs, "(list: any): function, any, integer", "Walks a list in order."},
    {"pairs", base_pairs, "(t: any): function, any, any",
     "Walks a table; an input map in the order of its keys."},
    kNext,
    {"select", base_select, "(n: integer|string, ...: any): any",
     "The arguments from the n-th on; '#' counts them."},
    {"error", base_error, "(text: string, level?: integer)",
     "Ends the evaluation; nothing is done to the pod."},
    {"assert", base_assert, "(v: any, text?: string): any", "Raises text when v is false or nil."},
    {"duration", base_duration, "(text: string): number", "Seconds of a text such as 1h30m."},
}};

constexpr std::array<HostFunction, 2> kLog = {{
    {"info", log_info, "(text: string)", "A line for the engine's log; 20 lines a call."},
    {"warn", log_warn, "(text: string)", "A warning for the engine's log; 20 lines a call."},
}};

}  // namespace

const Library& base_library() {
  static constexpr Library kLibrary{.name = "", .functions = kBase};
  return kLibrary;
}

const Library& log_library() {
  static constexpr Library kLibrary{.name = "log", .functions = kLog};
  return kLibrary;
}

}  // namespace moonfence::policy
