#include "loop/loop.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fake_poller.h"

namespace moonfence::loop {
namespace {

using namespace std::chrono_literals;

struct LoopTest : testing::Test {
  test::FakePoller poller;
  Loop loop{poller};
  std::vector<std::string> seen;

  std::function<void()> note(const std::string& what) {
    return [this, what] { seen.push_back(what); };
  }
};

TEST_F(LoopTest, timers_fire_by_due_time_and_equal_ones_in_the_order_set) {
  const Timer b = loop.after(2s, note("b"));
  const Timer a = loop.after(1s, note("a"));
  const Timer c = loop.after(2s, note("c"));
  test::run_for(loop, 3s);
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(LoopTest, a_destroyed_timer_never_fires) {
  { const Timer gone = loop.after(1s, note("gone")); }
  Timer replaced = loop.after(1s, note("replaced"));
  replaced = loop.after(2s, note("kept"));
  test::run_for(loop, 3s);
  EXPECT_EQ(seen, std::vector<std::string>{"kept"});
  EXPECT_FALSE(replaced.pending());
}

TEST_F(LoopTest, a_timer_may_cancel_another_that_is_due_in_the_same_turn) {
  Timer second;
  const Timer first = loop.after(1s, [&] { second.cancel(); });
  second = loop.after(1s, note("second"));
  test::run_for(loop, 2s);
  EXPECT_TRUE(seen.empty());
}

// A login's answer held the exchange it came from, and that exchange a timer that was next.
TEST_F(LoopTest, what_an_action_held_may_cancel_the_next_timer_as_it_dies) {
  int fired = 0;
  auto held = std::make_shared<Timer>();
  const Timer first = loop.after(1s, [held] { (void)held; });
  *held = loop.after(2s, [&fired] { ++fired; });
  held.reset();
  test::run_for(loop, 5s);
  EXPECT_EQ(fired, 0);
}

TEST_F(LoopTest, time_stands_still_inside_a_turn) {
  std::vector<Moment> moments;
  const Timer timer = loop.after(1s, [&] {
    moments.push_back(loop.now());
    poller.advance(5s);  // the real clock goes on while the turn works
    moments.push_back(loop.now());
    loop.defer([&] { moments.push_back(loop.now()); });
  });
  test::run_for(loop, 2s);
  ASSERT_EQ(moments.size(), 3U);
  EXPECT_EQ(moments[0], moments[1]);
  EXPECT_EQ(moments[0], moments[2]);
}

TEST_F(LoopTest, a_timer_set_while_firing_waits_for_a_later_turn) {
  Timer again;
  const Timer first = loop.after(0s, [&] { again = loop.after(0s, note("again")); });
  loop.turn();
  EXPECT_TRUE(seen.empty());
  loop.turn();
  EXPECT_EQ(seen, std::vector<std::string>{"again"});
}

TEST_F(LoopTest, the_next_turn_is_never_this_one) {
  Timer next;
  poller.deliver([&] { next = loop.in_next_turn(note("next")); });
  loop.turn();
  EXPECT_TRUE(seen.empty());
  loop.turn();
  EXPECT_EQ(seen, std::vector<std::string>{"next"});
}

TEST_F(LoopTest, a_deferred_call_that_defers_waits_for_the_next_turn) {
  loop.defer([&] {
    seen.emplace_back("first");
    loop.defer(note("second"));
  });
  loop.turn();
  EXPECT_EQ(seen, std::vector<std::string>{"first"});
  loop.turn();
  EXPECT_EQ(seen, (std::vector<std::string>{"first", "second"}));
}

TEST_F(LoopTest, input_comes_before_timers_and_timers_before_deferred_calls) {
  const Timer timer = loop.after(0s, note("timer"));
  loop.defer(note("deferred"));
  poller.deliver(note("input"));
  loop.turn();
  EXPECT_EQ(seen, (std::vector<std::string>{"input", "timer", "deferred"}));
}

TEST_F(LoopTest, run_ends_with_the_turn_that_stops_it) {
  const Timer timer = loop.after(1h, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(loop.now() - Moment{}, 1h);
}

}  // namespace
}  // namespace moonfence::loop
