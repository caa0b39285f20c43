#include "policy/lua/opaque.h"

#include <string>

#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

// Its address is the key under which a metatable names its type.
constexpr char kType = 'o';

const OpaqueType* type_of(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TUSERDATA || lua_getmetatable(lua, index) == 0) {
    return nullptr;
  }
  lua_rawgetp(lua, -1, &kType);
  const auto* type = static_cast<const OpaqueType*>(lua_touserdata(lua, -1));
  lua_pop(lua, 2);
  return type;
}

int opaque_index(lua_State* lua) {
  const OpaqueType* type = type_of(lua, 1);
  if (type == nullptr) {
    raise(lua, "not a value of the engine's");
  }
  raise(lua, std::string("a ") + type->name + " has no fields; " + type->use);
}

int opaque_newindex(lua_State* lua) {
  const OpaqueType* type = type_of(lua, 1);
  raise(lua, std::string("cannot change a ") + (type == nullptr ? "value" : type->name) +
                 ": it is read-only");
}

constexpr HostFunction kIndex = {"index", opaque_index};
constexpr HostFunction kNewIndex = {"newindex", opaque_newindex};

void* writable(const OpaqueType& type) {
  // Lua never writes through a light userdata; it only has no pointer to const.
  return const_cast<OpaqueType*>(&type);
}

void push_metatable(lua_State* lua, const OpaqueType& type) {
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &type) == LUA_TTABLE) {
    return;
  }
  lua_pop(lua, 1);
  lua_createtable(lua, 0, 4);
  push_function(lua, kIndex, base_library());
  lua_setfield(lua, -2, "__index");
  push_function(lua, kNewIndex, base_library());
  lua_setfield(lua, -2, "__newindex");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_pushlightuserdata(lua, writable(type));
  lua_rawsetp(lua, -2, &kType);
  lua_pushvalue(lua, -1);
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &type);
}

}  // namespace

void* push_opaque(lua_State* lua, const OpaqueType& type, std::size_t size) {
  void* const bytes = lua_newuserdatauv(lua, size, 0);
  push_metatable(lua, type);
  lua_setmetatable(lua, -2);
  return bytes;
}

void* to_opaque(lua_State* lua, int index, const OpaqueType& type) {
  return type_of(lua, index) == &type ? lua_touserdata(lua, index) : nullptr;
}

const char* opaque_name(lua_State* lua, int index) {
  const OpaqueType* type = type_of(lua, index);
  return type == nullptr ? nullptr : type->name;
}

}  // namespace moonfence::policy
