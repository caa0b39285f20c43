#pragma once

// What this process is and how it is kept from leaking its credentials.

#include <string>

#include "base/result.h"

namespace moonfence::os {

// No core dumps, no ptrace by the same user, /proc/self readable by root alone: memory holds tokens
// and keys.
Result<void> secure_process();

// In a pod, its name.
[[nodiscard]] Result<std::string> host_name();

[[nodiscard]] int process_id();

}  // namespace moonfence::os
