#include "bench/allocations.h"

#include <cstdlib>
#include <new>

namespace {

std::uint64_t g_allocations = 0;  // all that is measured is one thread

}  // namespace

void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* block = std::malloc(size == 0 ? 1 : size)) {
    return block;
  }
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}

namespace moonfence::bench {

std::uint64_t allocations() {
  return g_allocations;
}

}  // namespace moonfence::bench
