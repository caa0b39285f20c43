#include "fence/record_pace.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

constexpr bool kMoreComes = true;
constexpr bool kNoMore = false;

struct RecordPaceTest : testing::Test {
  RecordPace pace;
  Moment now{1h};

  void add(int times) {
    for (int i = 0; i < times; ++i) {
      pace.add(now);
    }
  }
};

TEST_F(RecordPaceTest, nothing_is_never_due) {
  EXPECT_FALSE(pace.is_due(kMoreComes, now));
  EXPECT_FALSE(pace.is_due(kNoMore, now));
  add(1);
  pace.write();
  EXPECT_FALSE(pace.has_any());
  EXPECT_FALSE(pace.is_due(kNoMore, now + 1h));
}

TEST_F(RecordPaceTest, the_first_does_not_wait) {
  add(1);
  EXPECT_TRUE(pace.is_due(kMoreComes, now));
}

TEST_F(RecordPaceTest, later_ones_wait_for_others) {
  add(3);
  pace.write();
  add(300);
  EXPECT_FALSE(pace.is_due(kMoreComes, now));
}

TEST_F(RecordPaceTest, the_last_ones_wait_for_nothing) {
  add(30);
  pace.write();
  add(1);
  EXPECT_FALSE(pace.is_due(kMoreComes, now));
  EXPECT_TRUE(pace.is_due(kNoMore, now));
}

// With policies that take 20 ms for a pod the second of 400 would wait for the last.
TEST_F(RecordPaceTest, nobody_waits_long_for_others) {
  add(256);
  pace.write();
  add(1);
  now += RecordPace::kPatience - 1ms;
  add(1);
  EXPECT_FALSE(pace.is_due(kMoreComes, now));
  now += 1ms;
  EXPECT_TRUE(pace.is_due(kMoreComes, now)) << "counted from the first that waits";
  pace.write();
  add(1);
  EXPECT_FALSE(pace.is_due(kMoreComes, now));
}

// Each takes an API server that deletes meanwhile 4 to 190 ms, and little can leave until it
// stands.
TEST_F(RecordPaceTest, a_thousand_that_come_five_at_a_time_are_two_writes) {
  int writes = 0;
  for (int left = 1000; left > 0; left -= 5) {
    add(5);
    if (pace.is_due(left > 5, now)) {
      pace.write();
      ++writes;
    }
    now += 250us;
  }
  EXPECT_EQ(writes, 2);
}

}  // namespace
}  // namespace moonfence::fence
