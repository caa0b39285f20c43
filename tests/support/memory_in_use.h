#pragma once

// Bytes that the program has allocated and not freed.

#include <cstddef>

#include <malloc.h>

#if defined(__SANITIZE_ADDRESS__)
#define MOONFENCE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOONFENCE_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef MOONFENCE_ADDRESS_SANITIZER
#include <sanitizer/allocator_interface.h>
#endif

namespace moonfence::tests {

inline std::size_t memory_in_use() {
#ifdef MOONFENCE_ADDRESS_SANITIZER
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 found = mallinfo2();
  return found.uordblks + found.hblkhd;
#endif
}

}  // namespace moonfence::tests
