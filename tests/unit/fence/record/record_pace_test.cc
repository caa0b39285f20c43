#include "fence/record/record_pace.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMoreComes = 10;
constexpr std::size_t kNoMore = 0;

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

TEST_F(RecordPaceTest, the_first_of_few_do_not_wait) {
  add(1);
  EXPECT_TRUE(pace.is_due(RecordPace::kFew - 1, now));
}

// Their deletions would keep the server from the write that the others wait for.
TEST_F(RecordPaceTest, the_first_of_many_wait_for_the_others) {
  add(1);
  EXPECT_FALSE(pace.is_due(RecordPace::kFew, now));
  add(300);
  EXPECT_FALSE(pace.is_due(1, now)) << "what waits is many, although little is to come";
  EXPECT_TRUE(pace.is_due(kNoMore, now));
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
TEST_F(RecordPaceTest, a_hundred_are_two_writes_and_four_hundred_one) {
  const auto writes_of = [this](std::size_t pods) {
    pace = {};
    int writes = 0;
    for (std::size_t left = pods; left > 0;) {
      add(5);
      left -= 5;
      if (pace.is_due(left, now)) {
        pace.write();
        ++writes;
      }
      now += 500us;
    }
    return writes;
  };
  EXPECT_EQ(writes_of(5), 1);
  EXPECT_EQ(writes_of(100), 2);
  EXPECT_EQ(writes_of(400), 1);
}

TEST_F(RecordPaceTest, the_first_of_many_do_not_wait_long) {
  add(1);
  now += RecordPace::kPatience;
  EXPECT_TRUE(pace.is_due(1000, now));
}

}  // namespace
}  // namespace moonfence::fence
