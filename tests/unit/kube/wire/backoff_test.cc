#include "kube/wire/backoff.h"

#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, doubles_to_half_a_minute) {
  Backoff backoff;
  Moment now{};
  for (const Duration expected :
       std::initializer_list<Duration>{800ms, 1600ms, 3200ms, 6400ms, 12800ms, 25600ms, 30s, 30s}) {
    const Duration delay = backoff.next(now, 0);
    EXPECT_EQ(delay, expected);
    now += delay;
  }
}

TEST(Backoff, chance_adds_up_to_as_much_again) {
  EXPECT_EQ(Backoff().next(Moment{}, 0.5), 1200ms);
  EXPECT_LT(Backoff().next(Moment{}, 0.999), 1600ms);
}

TEST(Backoff, two_quiet_minutes_are_forgiveness) {
  Backoff backoff;
  (void)backoff.next(Moment{}, 0);
  EXPECT_EQ(backoff.next(Moment{} + 800ms + 120s, 0), 1600ms);
  EXPECT_EQ(backoff.next(Moment{} + 800ms + 120s + 1600ms + 121s, 0), 800ms);
}

TEST(Backoff, a_success_is_forgiveness) {
  Backoff backoff;
  (void)backoff.next(Moment{}, 0);
  (void)backoff.next(Moment{}, 0);
  backoff.forget();
  EXPECT_EQ(backoff.next(Moment{}, 0), 800ms);
}

TEST(Backoff, the_servers_wish_is_a_minimum) {
  EXPECT_EQ(Backoff().next(Moment{}, 0, 5s), 5s);
  EXPECT_EQ(Backoff().next(Moment{}, 0, 100ms), 800ms);
}

}  // namespace
}  // namespace moonfence::kube
