#include "fence/brake/storm.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

const Moment kNow = Moment{} + 240h;

// More than half of the workers.
Storm storm(std::vector<Duration> ago, std::int64_t up) {
  std::vector<Moment> falls;
  for (const Duration each : ago) {
    falls.push_back(kNow - each);
  }
  return storm_of(falls, up,
                  {.window = 10min,
                   .memory = 24h,
                   .too_many = [](std::int64_t down, std::int64_t all) { return down * 2 > all; }},
                  kNow);
}

TEST(Storm, who_fell_within_the_window_is_newly_down) {
  const Storm found = storm({9min, 1min}, 8);
  EXPECT_EQ(found.down, 2);
  EXPECT_EQ(found.workers, 10);
  EXPECT_FALSE(found.too_many);
}

TEST(Storm, machines_that_fell_long_ago_and_apart_are_neither_down_nor_workers) {
  const Storm found = storm({23h, 20h, 15h, 10h, 5h, 1min}, 3);
  EXPECT_EQ(found.down, 1);
  EXPECT_EQ(found.workers, 4);
  EXPECT_FALSE(found.too_many);
}

TEST(Storm, one_that_lasts_does_not_become_ordinary) {
  const Storm found = storm({2h, 119min, 118min}, 2);
  EXPECT_TRUE(found.too_many);
  EXPECT_EQ(found.down, 3);
  EXPECT_EQ(found.since, kNow - 2h);
  EXPECT_EQ(found.changes, kNow + 22h);
}

TEST(Storm, whoever_falls_after_a_storm_began_counts_with_it) {
  EXPECT_EQ(storm({2h, 119min, 118min, 117min, 1h, 1min}, 1).down, 6);
}

TEST(Storm, even_a_storm_is_forgotten) {
  const Storm found = storm({48h, 48h, 48h}, 2);
  EXPECT_EQ(found.down, 0);
  EXPECT_EQ(found.workers, 2);
  EXPECT_FALSE(found.too_many);
}

TEST(Storm, the_numbers_change_when_the_first_leaves_the_window) {
  EXPECT_EQ(storm({9min, 1min}, 8).changes, kNow + 1min);
  EXPECT_EQ(storm({}, 8).changes, std::nullopt);
}

}  // namespace
}  // namespace moonfence::fence
