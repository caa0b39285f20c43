#pragma once

// string.format without C's printf: widths and precisions have at most two digits, and nothing
// shows an address.

#include <lua.hpp>

namespace moonfence::policy {

// Arguments on the stack: the format and its values. Pushes the text and returns 1.
[[nodiscard]] int push_formatted(lua_State* lua);

}  // namespace moonfence::policy
