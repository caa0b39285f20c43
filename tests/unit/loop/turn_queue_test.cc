#include "loop/turn_queue.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "support/fake_poller.h"

namespace moonfence::loop {
namespace {

using namespace std::chrono_literals;

struct TurnQueueTest : testing::Test {
  test::FakePoller poller;
  Loop loop{poller};
  TurnQueue turns{loop};
  std::string begun;

  std::unique_ptr<TurnQueue::Ticket> queue(char name) {
    return turns.queue([this, name] { begun += name; });
  }
  std::string begun_by_now() {
    test::run_for(loop, 1s);
    return begun;
  }
};

TEST_F(TurnQueueTest, one_after_the_other_in_the_order_in_which_they_asked) {
  auto a = queue('a');
  auto b = queue('b');
  auto c = queue('c');
  EXPECT_EQ(begun, "") << "in a later turn";
  EXPECT_EQ(begun_by_now(), "a");
  a = queue('A');
  EXPECT_EQ(begun_by_now(), "ab");
  b.reset();
  c.reset();
  EXPECT_EQ(begun_by_now(), "abA");
  a.reset();
  const auto d = queue('d');
  EXPECT_EQ(begun_by_now(), "abAd");
}

TEST_F(TurnQueueTest, who_leaves_the_queue_is_not_called) {
  auto a = queue('a');
  auto b = queue('b');
  const auto c = queue('c');
  b.reset();
  EXPECT_EQ(begun_by_now(), "a") << "and nobody is called because of it";
  a.reset();
  EXPECT_EQ(begun_by_now(), "ac");
}

TEST_F(TurnQueueTest, who_leaves_before_its_turn_began_lets_the_next_begin) {
  auto a = queue('a');
  const auto b = queue('b');
  a.reset();
  EXPECT_EQ(begun_by_now(), "b");
}

TEST_F(TurnQueueTest, a_turn_may_end_when_it_begins) {
  std::unique_ptr<TurnQueue::Ticket> a;
  a = turns.queue([this, &a] {
    begun += 'a';
    a.reset();
  });
  const auto b = queue('b');
  EXPECT_EQ(begun_by_now(), "ab");
}

}  // namespace
}  // namespace moonfence::loop
