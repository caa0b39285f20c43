#pragma once

// Values that scripts may hold, pass on and return, but neither read nor make: userdata with a
// locked metatable that is known by its identity.

#include <cstddef>

#include <lua.hpp>

namespace moonfence::policy {

struct OpaqueType {
  const char* name;  // "verdict", for messages
  const char* use;   // "return it from pod": what to do with one instead of reading it
};

// A new value of `size` bytes on top of the stack. `type` has static storage duration.
void* push_opaque(lua_State* lua, const OpaqueType& type, std::size_t size);
// The bytes of a value of this type; null for anything else.
[[nodiscard]] void* to_opaque(lua_State* lua, int index, const OpaqueType& type);
// Its type's name; null for what is no opaque value.
[[nodiscard]] const char* opaque_name(lua_State* lua, int index);

}  // namespace moonfence::policy
