#pragma once

// BlockPool serves the small blocks that a Lua state is made of (closures, strings, tables: some
// 600 for one decision) out of a few large chunks, and gives all of them back when it ends. The
// general allocator alone took a third of a decision's time. Blocks never move between pools, and a
// pool lives exactly as long as its Sandbox.
//
// Under AddressSanitizer every block is the general allocator's, so that it sees each of them.

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace moonfence::policy {

class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // As realloc: null for a failure, and then the old block stays. `old_size` is what the block was
  // last asked for with; 0 when there is none.
  [[nodiscard]] void* resize(void* block, std::size_t old_size, std::size_t new_size);
  void release(void* block, std::size_t size);

 private:
  static constexpr std::size_t kStep = 16;       // every block is aligned to it
  static constexpr std::size_t kLargest = 512;   // beyond, the general allocator is as good
  static constexpr std::size_t kChunk = 16'384;  // a decision needs two or three
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kPooled = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  static constexpr bool kPooled = false;
#else
  static constexpr bool kPooled = true;
#endif
#else
  static constexpr bool kPooled = true;
#endif

  struct Free {
    Free* next;
  };

  [[nodiscard]] static bool is_small(std::size_t size) {
    return kPooled && size <= kLargest;
  }
  [[nodiscard]] static std::size_t class_of(std::size_t size) {
    return (size + kStep - 1) / kStep;
  }
  [[nodiscard]] void* take(std::size_t size);

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* rest_ = nullptr;  // of the newest chunk
  std::size_t left_ = 0;
  std::array<Free*, kLargest / kStep + 1> free_{};
};

}  // namespace moonfence::policy
