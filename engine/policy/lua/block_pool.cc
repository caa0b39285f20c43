#include "policy/lua/block_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"

namespace moonfence::policy {

void* BlockPool::take(std::size_t size) {
  const std::size_t kind = class_of(size);
  if (Free* const block = free_[kind]; block != nullptr) {
    free_[kind] = block->next;
    return block;
  }
  const std::size_t bytes = kind * kStep;
  if (left_ < bytes) {
    try {
      chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunk));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    rest_ = chunks_.back().get();
    left_ = kChunk;
  }
  void* const block = rest_;
  rest_ += bytes;
  left_ -= bytes;
  return block;
}

void* BlockPool::resize(void* block, std::size_t old_size, std::size_t new_size) {
  const bool was_small = block != nullptr && is_small(old_size);
  if (!is_small(new_size) && !was_small) {
    return std::realloc(block, new_size);
  }
  if (was_small && is_small(new_size) && class_of(old_size) == class_of(new_size)) {
    return block;
  }
  void* const moved = is_small(new_size) ? take(new_size) : std::malloc(new_size);
  // Lua takes for granted that a block can shrink.
  MOONFENCE_CHECK(moved != nullptr || block == nullptr || new_size > old_size);
  if (moved != nullptr && block != nullptr) {
    std::memcpy(moved, block, std::min(old_size, new_size));
    release(block, old_size);
  }
  return moved;
}

void BlockPool::release(void* block, std::size_t size) {
  if (block == nullptr) {
    return;
  }
  if (!is_small(size)) {
    std::free(block);
    return;
  }
  free_[class_of(size)] = ::new (block) Free{.next = free_[class_of(size)]};
}

}  // namespace moonfence::policy
