#pragma once

// The Lua library that this process is linked with is the one that policies were proven on.

#include "base/result.h"

namespace moonfence::policy {

// Proves at start that a Lua error runs C++ destructors (the C build of Lua, which has the same
// symbols, skips them), that strings compare bytewise, and that the scan of policies reads this
// Lua's bytecode. Refuse to start when it fails.
[[nodiscard]] Result<void> lua_self_test();

}  // namespace moonfence::policy
