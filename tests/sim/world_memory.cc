// The memory of moonfence-sim. A world is made of some hundred thousand small blocks (JSON,
// strings, map nodes), and the general allocator took a quarter of its time. Here a block of at
// most 1 KiB comes from a free list of its size and goes back to it; the lists never shrink,
// because the next world needs the same again. What is larger is the general allocator's.
//
// Without locks: the program has one thread (its jobs are processes). The pages of a size know it,
// since a block may be given back without its size. Sanitizers see every block themselves.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOONFENCE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOONFENCE_SANITIZED
#endif
#endif

#ifndef MOONFENCE_SANITIZED
namespace {

constexpr std::size_t kStep = 16;  // every block is aligned to it
constexpr std::size_t kLargest = 1024;
constexpr std::size_t kSpan = 65'536;  // blocks of one size
constexpr std::size_t kSpans = 65'536;

struct Free {
  Free* next;
};

class WorldMemory {
 public:
  // Null when the address space is used up.
  void* take(std::size_t size) {
    const std::size_t steps = size == 0 ? 1 : (size + kStep - 1) / kStep;
    Free*& head = free_[steps];
    if (head == nullptr && !add_span(steps)) {
      return nullptr;
    }
    Free* block = head;
    head = block->next;
    return block;
  }

  // False: it is not from here.
  bool give_back(void* block) {
    const std::size_t offset = address(block) - base_;
    if (offset >= kSpan * kSpans) {
      return false;
    }
    Free*& head = free_[steps_of_[offset / kSpan]];
    head = new (block) Free{head};
    return true;
  }

 private:
  static std::uintptr_t address(const void* block) {
    return reinterpret_cast<std::uintptr_t>(block);
  }

  bool add_span(std::size_t steps) {
    if (space_ == nullptr) {
      // Reserved only: pages come as they are written.
      void* space = mmap(nullptr, kSpan * kSpans, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (space == MAP_FAILED) {
        return false;
      }
      space_ = static_cast<std::byte*>(space);
      base_ = address(space);
    }
    if (used_ == kSpans) {
      return false;
    }
    std::byte* const span = space_ + used_ * kSpan;
    steps_of_[used_++] = static_cast<std::uint8_t>(steps);
    const std::size_t length = steps * kStep;
    Free*& head = free_[steps];
    for (std::size_t at = kSpan / length; at-- > 0;) {
      head = new (span + at * length) Free{head};
    }
    return true;
  }

  std::array<Free*, kLargest / kStep + 1> free_{};
  std::array<std::uint8_t, kSpans> steps_of_{};
  std::byte* space_ = nullptr;
  std::uintptr_t base_ = ~(UINTPTR_MAX >> 1U);  // far from every address until there is a space
  std::size_t used_ = 0;
};

// Needs no construction and no destruction: used before main and after it.
constinit WorldMemory memory;

}  // namespace

void* operator new(std::size_t size) {
  void* block = size <= kLargest ? memory.take(size) : nullptr;
  if (block == nullptr) {
    block = std::malloc(size);
  }
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  return block;
}

void operator delete(void* block) noexcept {
  if (block != nullptr && !memory.give_back(block)) {
    std::free(block);
  }
}

void operator delete(void* block, std::size_t /*size*/) noexcept {
  operator delete(block);
}
#endif
