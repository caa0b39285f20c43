#include "policy/lua/block_pool.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::policy {
namespace {

TEST(BlockPool, a_block_keeps_its_bytes_however_it_grows_and_shrinks) {
  BlockPool pool;
  void* block = pool.resize(nullptr, 0, 1);
  *static_cast<char*>(block) = 'x';
  std::size_t held = 1;
  for (const std::size_t size : {16U, 17U, 511U, 512U, 513U, 100'000U, 512U, 40U, 513U, 8U, 1U}) {
    block = pool.resize(block, held, size);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(*static_cast<char*>(block), 'x') << size;
    std::memset(static_cast<char*>(block) + 1, 'y', size - 1);
    held = size;
  }
  pool.release(block, held);
}

TEST(BlockPool, blocks_do_not_overlap_and_are_aligned) {
  BlockPool pool;
  std::vector<unsigned char*> blocks;
  for (std::size_t i = 0; i < 4000; ++i) {
    const std::size_t size = 1 + i * 7 % 600;
    auto* const block = static_cast<unsigned char*>(pool.resize(nullptr, 0, size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0U);
    std::memset(block, static_cast<int>(i % 251), size);
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t size = 1 + i * 7 % 600;
    for (std::size_t at = 0; at < size; ++at) {
      ASSERT_EQ(blocks[i][at], i % 251) << i;
    }
    pool.release(blocks[i], size);
  }
}

TEST(BlockPool, what_is_given_back_is_used_again) {
  BlockPool pool;
  for (int i = 0; i < 100'000; ++i) {  // without reuse: 50 MB
    void* const block = pool.resize(nullptr, 0, 500);
    ASSERT_NE(block, nullptr);
    pool.release(block, 500);
  }
}

}  // namespace
}  // namespace moonfence::policy
