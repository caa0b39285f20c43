#pragma once

// operator new that counts, in a file of its own so that no caller sees through it. Every operator
// new of the program comes here; what C libraries allocate by malloc does not.

#include <cstdint>

namespace moonfence::bench {

// Since the start of the program.
[[nodiscard]] std::uint64_t allocations();

}  // namespace moonfence::bench
