#include "kube/wire/server_pace.h"

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

TEST(ServerPaceTest, how_far_it_is_says_the_quickest_read_of_the_last_minutes) {
  ServerPace pace;
  EXPECT_EQ(pace.quickest_read(kStart), 0s) << "nobody knows";
  pace.call_ended(Method::Get, true, 4ms, kStart);
  pace.call_ended(Method::Get, true, 300ms, kStart + 1min);
  pace.call_ended(Method::Get, true, 301ms, kStart + 2min);
  pace.call_ended(Method::Delete, true, 1ms, kStart + 2min);
  EXPECT_EQ(pace.quickest_read(kStart + 2min), 4ms);
  EXPECT_EQ(pace.quickest_read(kStart + 5min + 30s), 300ms) << "it is another one now";
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

TEST(ServerPaceTest, beyond_the_bounds_it_says_which_calls_are_slow) {
  ServerPace pace;
  pace.call_ended(Method::Get, true, 6s, kStart);
  pace.call_ended(Method::Patch, true, 2s, kStart);
  EXPECT_EQ(pace.slowness(kStart),
            "the API server is too slow to act by: of the last minutes the slowest read took 6s "
            "(5s is the limit), the slowest write 2s (35s)");
  EXPECT_FALSE(pace.is_too_slow(kStart + 6min));
  ServerPace of_writes;
  of_writes.call_ended(Method::Delete, true, 36s, kStart);
  EXPECT_NE(of_writes.slowness(kStart).find("the slowest write 36s"), std::string::npos);
  EXPECT_TRUE(of_writes.is_too_slow(kStart));
}

}  // namespace
}  // namespace moonfence::kube
