#include "policy/lua/library.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <vector>

#include "base/text.h"
#include "policy/lua/opaque.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

constexpr std::uint64_t kCallUnits = 4;

const HostFunction* running(lua_State* lua) {
  return static_cast<const HostFunction*>(lua_touserdata(lua, lua_upvalueindex(1)));
}

// Every call from a script comes through here. C++ exceptions become Lua errors once their handler
// has ended; `catch (...)` would swallow Lua's own.
int call_host_function(lua_State* lua) {
  const HostFunction* function = running(lua);
  std::string what;
  try {
    Sandbox::of(lua).charge(lua, kCallUnits);
    return function->body(lua);
  } catch (const std::exception& thrown) {
    what = thrown.what();
  }
  raise(lua, function_name(lua) + ": internal error: " + what);
}

std::array<const Library*, 5> named_libraries() {
  return {&string_library(), &table_library(), &math_library(), &log_library(), &fence_library()};
}

std::vector<std::string_view> names_of(const Library& library) {
  std::vector<std::string_view> names(library.constants.begin(), library.constants.end());
  for (const HostFunction& function : library.functions) {
    names.emplace_back(function.name);
  }
  return names;
}

std::string key_text(lua_State* lua, int index) {
  return lua_type(lua, index) == LUA_TSTRING ? "'" + escaped(text_at(lua, index), 64) + "'"
                                             : described(lua, index);
}

void push_library(lua_State* lua, const Library& library);

// The function of that name; null when the library has none.
const HostFunction* function_of(const Library& library, std::string_view name) {
  const auto found = std::find_if(library.functions.begin(), library.functions.end(),
                                  [name](const HostFunction& each) { return each.name == name; });
  return found == library.functions.end() ? nullptr : &*found;
}

// Pushes what a name of the environment means; false, and nothing, when it means nothing.
bool push_global(lua_State* lua, std::string_view name) {
  for (const Library* library : {&base_library(), &declaration_library()}) {
    if (const HostFunction* function = function_of(*library, name)) {
      push_function(lua, *function, *library);
      return true;
    }
  }
  for (const Library* library : named_libraries()) {
    if (library->name == name) {
      push_library(lua, *library);
      return true;
    }
  }
  return false;
}

// Called with the table that lacks the name, as __index: what is on top is what it means from now
// on. A policy uses a handful of the functions; all of them were a seventh to a third of a
// decision's instructions.
int found_missing(lua_State* lua) {
  lua_pushvalue(lua, 2);
  lua_pushvalue(lua, -2);
  lua_rawset(lua, 1);
  return 1;
}

int missing_global(lua_State* lua) {
  if (lua_type(lua, 2) == LUA_TSTRING && push_global(lua, text_at(lua, 2))) {
    return found_missing(lua);
  }
  std::vector<std::string_view> names = names_of(base_library());
  for (const HostFunction& function : declaration_library().functions) {
    names.emplace_back(function.name);
  }
  for (const Library* library : named_libraries()) {
    names.emplace_back(library->name);
  }
  const std::string hint =
      lua_type(lua, 2) == LUA_TSTRING ? did_you_mean(text_at(lua, 2), names) : "";
  raise(lua, "unknown global " + key_text(lua, 2) + hint);
}

int missing_member(lua_State* lua) {
  const auto* library = static_cast<const Library*>(lua_touserdata(lua, lua_upvalueindex(2)));
  const bool named = lua_type(lua, 2) == LUA_TSTRING;
  if (const HostFunction* function = named ? function_of(*library, text_at(lua, 2)) : nullptr) {
    push_function(lua, *function, *library);
    return found_missing(lua);
  }
  const std::string hint = named ? did_you_mean(text_at(lua, 2), names_of(*library)) : "";
  raise(lua, "unknown function " + key_text(lua, 2) + " of '" + library->name + "'" + hint);
}

int refuse_global(lua_State* lua) {
  raise(lua, "cannot set global " + key_text(lua, 2) +
                 ": the environment is read-only; use 'local' for a variable");
}

int refuse_member(lua_State* lua) {
  const auto* library = static_cast<const Library*>(lua_touserdata(lua, lua_upvalueindex(2)));
  raise(lua, std::string("cannot set ") + key_text(lua, 2) + " of '" + library->name +
                 "': it is read-only");
}

constexpr HostFunction kMissingGlobal = {"_ENV", missing_global, "", ""};
constexpr HostFunction kMissingMember = {"index", missing_member, "", ""};
constexpr HostFunction kRefuseGlobal = {"_ENV", refuse_global, "", ""};
constexpr HostFunction kRefuseMember = {"newindex", refuse_member, "", ""};

// Table on top -> an empty table that reads through to it and cannot be written.
void freeze(lua_State* lua, const Library& library, const HostFunction& missing,
            const HostFunction& refuse) {
  // Names that are missing from the inner table reach `missing`.
  lua_createtable(lua, 0, 1);
  push_function(lua, missing, library);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);

  lua_createtable(lua, 0, 0);
  lua_createtable(lua, 0, 3);
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  push_function(lua, refuse, library);
  lua_setfield(lua, -2, "__newindex");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_setmetatable(lua, -2);
  lua_remove(lua, -2);
}

void push_library(lua_State* lua, const Library& library) {
  lua_createtable(lua, 0, 4);
  if (library.add_constants != nullptr) {
    library.add_constants(lua);
  }
  freeze(lua, library, kMissingMember, kRefuseMember);
}

// The library table of strings stands behind s:method() too.
void set_string_metatable(lua_State* lua) {
  lua_pushliteral(lua, "");
  lua_createtable(lua, 0, 2);
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_setmetatable(lua, -2);
  lua_pop(lua, 1);
}

}  // namespace

std::array<const Library*, 7> libraries() {
  return {&base_library(), &declaration_library(), &string_library(), &table_library(),
          &math_library(), &log_library(),         &fence_library()};
}

void push_environment(lua_State* lua, const Library* more) {
  lua_createtable(lua, 0, 16);
  if (more != nullptr) {
    for (const HostFunction& function : more->functions) {
      push_function(lua, function, *more);
      lua_setfield(lua, -2, function.name);
    }
  }
  push_library(lua, string_library());
  set_string_metatable(lua);
  lua_setfield(lua, -2, string_library().name);
  freeze(lua, base_library(), kMissingGlobal, kRefuseGlobal);
}

void raise(lua_State* lua, const std::string& text) {
  luaL_error(lua, "%s", text.c_str());
  std::abort();  // luaL_error does not return
}

std::string function_name(lua_State* lua) {
  const auto* library = static_cast<const Library*>(lua_touserdata(lua, lua_upvalueindex(2)));
  const std::string name = running(lua)->name;
  return library == nullptr || *library->name == '\0' ? name
                                                      : std::string(library->name) + "." + name;
}

void raise_argument(lua_State* lua, int index, const std::string& wanted) {
  raise(lua, function_name(lua) + ": argument " + std::to_string(index) + " must be " + wanted +
                 ", not " + described(lua, index));
}

std::string_view text_argument(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TSTRING) {
    raise_argument(lua, index, "a text");
  }
  return text_at(lua, index);
}

std::string_view text_argument(lua_State* lua, int index, std::string_view otherwise) {
  return lua_isnoneornil(lua, index) ? otherwise : text_argument(lua, index);
}

lua_Integer integer_argument(lua_State* lua, int index) {
  int exact = 0;
  const lua_Integer value =
      lua_type(lua, index) == LUA_TNUMBER ? lua_tointegerx(lua, index, &exact) : 0;
  if (exact == 0) {
    raise_argument(lua, index, "an integer");
  }
  return value;
}

lua_Integer integer_argument(lua_State* lua, int index, lua_Integer otherwise) {
  return lua_isnoneornil(lua, index) ? otherwise : integer_argument(lua, index);
}

lua_Number number_argument(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TNUMBER) {
    raise_argument(lua, index, "a number");
  }
  return lua_tonumber(lua, index);
}

void table_argument(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TTABLE) {
    raise_argument(lua, index, "a table of the script's own");
  }
}

void function_argument(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TFUNCTION) {
    raise_argument(lua, index, "a function");
  }
}

std::string described(lua_State* lua, int index) {
  switch (lua_type(lua, index)) {
    case LUA_TNONE:
      return "nothing";
    case LUA_TNIL:
      return "nil";
    case LUA_TNUMBER:
      return lua_isinteger(lua, index) != 0 ? "an integer" : "a number";
    case LUA_TSTRING:
      return "a text";
    case LUA_TUSERDATA:
      return shown(lua, index);
    default:
      return std::string("a ") + luaL_typename(lua, index);
  }
}

std::string shown(lua_State* lua, int index) {
  switch (lua_type(lua, index)) {
    case LUA_TSTRING:
      return std::string(text_at(lua, index));
    case LUA_TNUMBER: {
      lua_pushvalue(lua, index);  // lua_tolstring converts in place
      std::string text(text_at(lua, -1));
      lua_pop(lua, 1);
      return text;
    }
    case LUA_TBOOLEAN:
      return lua_toboolean(lua, index) != 0 ? "true" : "false";
    case LUA_TUSERDATA: {
      const View* view = to_view(lua, index);
      const char* opaque = opaque_name(lua, index);
      return view != nullptr ? view->name : opaque != nullptr ? opaque : "policy";
    }
    default:
      return luaL_typename(lua, index);
  }
}

void push_text(lua_State* lua, std::string_view text) {
  lua_pushlstring(lua, text.data(), text.size());
}

void push_function(lua_State* lua, const HostFunction& function, const Library& library) {
  // Lua never writes through a light userdata; it only has no pointer to const.
  lua_pushlightuserdata(lua, const_cast<HostFunction*>(&function));
  lua_pushlightuserdata(lua, const_cast<Library*>(&library));
  lua_pushcclosure(lua, call_host_function, 2);
}

std::string_view text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* text = lua_tolstring(lua, index, &size);
  return {text, size};
}

}  // namespace moonfence::policy
