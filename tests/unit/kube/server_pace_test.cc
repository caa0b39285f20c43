#include "kube/server_pace.h"

#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using port::Method;

constexpr Moment kStart{100s};

TEST(ServerPaceTest, of_an_ordinary_server_little_is_believed_for_long) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 20ms, kStart);
  pace.call_ended(Method::Delete, true, 200ms, kStart);
  EXPECT_EQ(pace.reading_lifetime(kStart), 1s);
  EXPECT_EQ(pace.call_limit(kStart), 2s);
  EXPECT_EQ(pace.slowness(kStart), "");
}

TEST(ServerPaceTest, limits_are_twice_what_the_slowest_took_within_their_bounds) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 1500ms, kStart);
  pace.call_ended(Method::Patch, true, 10s, kStart);
  EXPECT_EQ(pace.reading_lifetime(kStart), 3s);
  EXPECT_EQ(pace.call_limit(kStart), 20s);
  pace.call_ended(Method::Get, true, 4s, kStart);
  pace.call_ended(Method::Post, true, 30s, kStart);
  EXPECT_EQ(pace.reading_lifetime(kStart), ServerPace::kOldest);
  EXPECT_EQ(pace.call_limit(kStart), ServerPace::kLongestCall);
  EXPECT_FALSE(pace.is_too_slow(kStart));
}

TEST(ServerPaceTest, what_was_slow_is_forgotten_after_minutes) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 1500ms, kStart);
  pace.call_ended(Method::Get, true, 10ms, kStart + 4min);
  EXPECT_EQ(pace.reading_lifetime(kStart + 4min), 3s);
  EXPECT_EQ(pace.reading_lifetime(kStart + 5min + 1s), 1s);
}

TEST(ServerPaceTest, a_call_that_was_given_up_took_that_long_at_least) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 10ms, kStart);
  pace.call_ended(Method::Delete, false, 2500ms, kStart + 2s);
  EXPECT_EQ(pace.call_limit(kStart + 2s), 5s);
}

// What does not answer at all is out of reach, not slow.
TEST(ServerPaceTest, silence_alone_prolongs_nothing) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 10ms, kStart);
  pace.call_ended(Method::Delete, false, 2500ms, kStart + 11s);
  pace.call_ended(Method::Get, false, 5s, kStart + 20s);
  EXPECT_EQ(pace.call_limit(kStart + 20s), 2s);
  EXPECT_EQ(pace.reading_lifetime(kStart + 20s), 1s);
}

TEST(ServerPaceTest, beyond_the_bounds_it_says_so) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 6s, kStart);
  EXPECT_TRUE(pace.is_too_slow(kStart));
  EXPECT_NE(pace.slowness(kStart).find("6s"), std::string::npos);
  EXPECT_FALSE(pace.is_too_slow(kStart + 6min));
}

}  // namespace
}  // namespace moonfence::kube
