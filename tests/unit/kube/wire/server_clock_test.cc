#include "kube/wire/server_clock.h"

#include <gtest/gtest.h>

#include "support/fake_poller.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;

struct ServerClockTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  ServerClock clock{loop};
  const WallTime start = WallTime(std::chrono::hours(24 * 365 * 50));

  // An answer from a server whose clock runs `ahead` of our monotonic one.
  void answer(Duration at, Duration ahead, Duration took = 2ms) {
    const Moment received = Moment{} + at;
    const WallTime written = start + at - took / 2 + ahead;
    clock.sample(std::chrono::floor<std::chrono::seconds>(written), received - took, received);
  }
  [[nodiscard]] Duration error_at(Duration at, Duration ahead) const {
    return *clock.at(Moment{} + at) - (start + at + ahead);
  }
};

TEST_F(ServerClockTest, knows_nothing_before_the_first_answer) {
  EXPECT_FALSE(clock.now());
  clock.on_exchange(port::Method::Get, 0, 1s, std::nullopt);
  EXPECT_FALSE(clock.now());
}

TEST_F(ServerClockTest, one_answer_is_right_to_a_second) {
  answer(10s + 300ms, 0s);
  EXPECT_GE(error_at(60s, 0s), -1002ms);
}

TEST_F(ServerClockTest, many_answers_are_right_to_a_tenth) {
  for (int i = 0; i < 60; ++i) {
    answer(i * 5037ms, 7s);
  }
  EXPECT_GE(error_at(310s, 7s), -100ms);
}

// It told the middle of what can be: a pod was looked at up to half a second before its deadline,
// and by an answer written just after the deadline judged as if it had been listed after it.
TEST_F(ServerClockTest, is_never_ahead_of_the_server) {
  for (int i = 0; i < 60; ++i) {
    answer(i * 5037ms, 7100ms);
    for (const Duration later : {0ms, 100ms, 5036ms}) {
      ASSERT_LE(error_at(i * 5037ms + later, 7100ms), 0ms) << i;
    }
  }
}

// An answer is read in the middle of a turn; by the moment at which the turn began it seemed to
// come before its own Date. The next answer then contradicted it and put the clock a second back.
TEST_F(ServerClockTest, an_answer_read_late_in_a_long_turn_is_not_taken_for_an_early_one) {
  const Moment second = Moment{} + 10s;
  test::run_for(loop, second - Moment{} - 20ms);
  poller.deliver([&] {
    poller.advance(40ms);
    clock.on_exchange(port::Method::Get, 200, 30ms, start + 10s);
  });
  loop.turn();
  EXPECT_LE(*clock.at(second), start + 10s);
  EXPECT_GE(*clock.at(second), start + 10s - 40ms);
}

TEST_F(ServerClockTest, what_is_told_later_is_not_earlier) {
  WallTime last;
  for (int i = 0; i < 60; ++i) {
    answer(loop.now() - Moment{}, 7s, i % 7 * 300ms);
    ASSERT_GT(*clock.now(), last) << i;
    last = *clock.now();
    test::run_for(loop, 137ms);
  }
  answer(loop.now() - Moment{}, -3600s);
  EXPECT_LT(*clock.now(), last - 3500s) << "a clock that was stepped is followed";
}

// Behind one address; their answers contradict one another once each of them is known well.
TEST_F(ServerClockTest, api_servers_that_differ_a_little_do_not_put_it_back) {
  WallTime last;
  for (int i = 0; i < 300; ++i) {
    answer(loop.now() - Moment{}, i % 2 == 0 ? 7s : 7050ms);
    ASSERT_GE(*clock.now(), last) << i;
    last = *clock.now();
    test::run_for(loop, 537ms);
    ASSERT_LE(*clock.now(), start + (loop.now() - Moment{}) + 7050ms) << i;
    ASSERT_GE(*clock.now(), start + (loop.now() - Moment{}) + 5s) << i;
  }
}

TEST_F(ServerClockTest, a_stepped_clock_is_followed_at_once) {
  answer(1s, 0s);
  answer(2s, -3600s);
  EXPECT_LE(error_at(3s, -3600s), 0ms);
  EXPECT_GE(error_at(3s, -3600s), -1002ms);
}

TEST_F(ServerClockTest, a_slow_answer_does_not_pull_the_clock_back) {
  answer(1s, 0s);
  const Moment received = Moment{} + 100s;  // its head was written 50 s before it arrived
  clock.sample(std::chrono::floor<std::chrono::seconds>(start + 50s), received - 60s, received);
  EXPECT_GE(error_at(100s, 0s), -1020ms);
}

}  // namespace
}  // namespace moonfence::kube
