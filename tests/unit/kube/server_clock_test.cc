#include "kube/server_clock.h"

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

TEST_F(ServerClockTest, one_answer_is_right_to_half_a_second) {
  answer(10s + 300ms, 0s);
  EXPECT_LE(std::chrono::abs(error_at(60s, 0s)), 502ms);
}

TEST_F(ServerClockTest, many_answers_are_right_to_a_tenth) {
  for (int i = 0; i < 60; ++i) {
    answer(i * 5037ms, 7s);
  }
  EXPECT_LE(std::chrono::abs(error_at(310s, 7s)), 100ms);
}

TEST_F(ServerClockTest, what_is_told_later_is_not_earlier) {
  const auto answers_now = [&](Duration ahead) { answer(loop.now() - Moment{}, ahead); };
  const Duration begun = 2ms - (loop.now() - Moment{}) % 1s;  // a second of the server's
  answers_now(begun);
  test::run_for(loop, 900ms);
  const WallTime first = *clock.now();  // between 0.9 s and 1.9 s: 1.4 s is told
  answers_now(begun);                   // still in its first second
  EXPECT_LT(*clock.at(loop.now()), first);
  EXPECT_EQ(*clock.now(), first);
  test::run_for(loop, 1s);
  EXPECT_GT(*clock.now(), first);
  answers_now(begun - 3600s);
  EXPECT_LT(*clock.now(), first - 3500s) << "a clock that was stepped is followed";
}

TEST_F(ServerClockTest, a_stepped_clock_is_followed_at_once) {
  answer(1s, 0s);
  answer(2s, -3600s);
  EXPECT_LE(std::chrono::abs(error_at(3s, -3600s)), 502ms);
}

TEST_F(ServerClockTest, a_slow_answer_does_not_pull_the_clock_back) {
  answer(1s, 0s);
  const Moment received = Moment{} + 100s;  // its head was written 50 s before it arrived
  clock.sample(std::chrono::floor<std::chrono::seconds>(start + 50s), received - 60s, received);
  EXPECT_LE(std::chrono::abs(error_at(100s, 0s)), 600ms);
}

}  // namespace
}  // namespace moonfence::kube
