#include "app/telling/health.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;

TEST(Health, it_is_not_ready_before_anything_was_checked) {
  EXPECT_FALSE(Health().ready(false).ok);
}

TEST(Health, it_tells_which_checks_fail_and_why) {
  Health health;
  health.set_ready("a", "");
  health.set_ready("b", "gone");
  EXPECT_EQ(health.failing(), (std::map<std::string, std::string>{{"b", "gone"}}));
}

TEST(Health, it_is_ready_when_every_check_passes) {
  Health health;
  health.set_ready("nodes-synced", "");
  EXPECT_TRUE(health.ready(false).ok);
  EXPECT_EQ(health.ready(false).text, "ok");
  health.set_ready("nodes-watch", "connection refused");
  EXPECT_FALSE(health.ready(false).ok);
  health.set_ready("nodes-watch", "");
  EXPECT_TRUE(health.ready(false).ok);
}

TEST(Health, what_fails_is_told_without_being_asked_and_what_passes_when_asked) {
  Health health;
  health.set_ready("a", "");
  health.set_ready("b", "gone");
  EXPECT_EQ(health.ready(false).text, "[+]a ok\n[-]b failed: gone\nreadyz check failed\n");
  health.set_ready("b", "");
  EXPECT_EQ(health.ready(true).text, "[+]a ok\n[+]b ok\nreadyz check passed\n");
}

// That nothing is fenced because somebody switched it off is no reason to be restarted or left out.
TEST(Health, a_note_stands_beside_a_check_and_fails_nothing) {
  Health health;
  health.set_ready("policies", "");
  health.note("policies", "nothing is fenced");
  EXPECT_EQ(health.ready(false).text, "ok");
  EXPECT_EQ(health.ready(true).text,
            "[+]policies ok, but nothing is fenced\nreadyz check passed\n");
  EXPECT_TRUE(health.failing().empty());
  health.note("policies", "");
  EXPECT_EQ(health.ready(true).text, "[+]policies ok\nreadyz check passed\n");
}

TEST(Health, it_lives_as_long_as_the_loop_turns) {
  Health health;
  const Moment start = Moment{} + 1h;
  health.alive(start);
  EXPECT_TRUE(health.live(start, false).ok);
  EXPECT_TRUE(health.live(start + Health::kStuckAfter - 1ns, false).ok);
  EXPECT_FALSE(health.live(start + Health::kStuckAfter, false).ok);
  health.alive(start + 1min);
  EXPECT_TRUE(health.live(start + 1min, false).ok);
}

TEST(Health, a_clock_that_was_read_a_little_earlier_is_no_fault) {
  Health health;
  health.alive(Moment{} + 1h);
  EXPECT_TRUE(health.live(Moment{} + 1h - 1ms, true).ok);  // the other thread's
}

TEST(Health, an_api_server_that_is_away_is_no_reason_to_die) {
  Health health;
  health.alive(Moment{} + 1h);
  health.set_ready("nodes-watch", "connection refused");
  EXPECT_TRUE(health.live(Moment{} + 1h, false).ok);
}

}  // namespace
}  // namespace moonfence::app
