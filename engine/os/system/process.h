#pragma once

// What this process is and how it is kept from leaking its credentials.

#include <string>
#include <string_view>

#include "base/result.h"

namespace moonfence::os {

// No core dumps, no ptrace by the same user, /proc/self readable by root alone: memory holds tokens
// and keys.
Result<void> secure_process();

// As many open files as the system allows this process: a connection to each node is one. No more
// than 65,536: children inherit it, some close every number below it, and it may be a billion.
Result<void> allow_all_descriptors();

// In a pod, its name.
[[nodiscard]] Result<std::string> host_name();

// The program of that name, which must lie in the folder of this one, takes this process over:
// arguments, environment and open files stay. Returns only if it cannot.
[[nodiscard]] Error become(std::string_view program, char* const* arguments);

// Gives heap that is free back to the system: a list of all nodes leaves megabytes of it behind,
// and the allocator keeps them for the next one. Some 0.1 ms for each MiB.
void return_free_memory();

}  // namespace moonfence::os
