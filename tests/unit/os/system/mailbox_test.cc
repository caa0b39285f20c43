#include "os/system/mailbox.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "loop/loop.h"
#include "os/net/curl_poller.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;

struct MailboxTest : testing::Test {
  CurlPoller poller;
  loop::Loop loop{poller};
  Mailbox mailbox{poller};

  void turn_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1000 && !done(); ++i) {
      const loop::Timer limit = loop.after(20ms, [] {});
      loop.turn();
    }
    EXPECT_TRUE(done());
  }
};

TEST_F(MailboxTest, calls_of_many_threads_run_on_the_loops_thread) {
  int sum = 0;  // of the loop's thread alone
  const auto here = std::this_thread::get_id();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        while (!mailbox.post([&] { sum += std::this_thread::get_id() == here ? 1 : 1000; })) {
          std::this_thread::yield();  // full
        }
      }
    });
  }
  turn_until([&] { return sum >= 800; });
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(sum, 800);
}

TEST_F(MailboxTest, an_answer_of_a_later_turn_reaches_whoever_asked) {
  std::optional<int> got;
  std::atomic<bool> done = false;
  loop::Timer later;
  std::thread asker([&] {
    got = mailbox.ask<int>(
        [&](const std::function<void(int)>& answer) {
          later = loop.after(10ms, [answer] { answer(42); });
        },
        10s);
    done = true;
  });
  turn_until([&] { return done.load(); });
  asker.join();
  EXPECT_EQ(got, 42);
}

TEST_F(MailboxTest, without_an_answer_it_gives_up) {
  EXPECT_EQ(mailbox.ask<int>([](const std::function<void(int)>&) {}, 1ms), std::nullopt);
  turn_until([] { return true; });
}

TEST_F(MailboxTest, an_answer_that_comes_too_late_goes_nowhere) {
  std::function<void(int)> kept;
  std::atomic<bool> done = false;
  std::thread asker([&] {
    (void)mailbox.ask<int>([&](std::function<void(int)> answer) { kept = std::move(answer); }, 1ms);
    done = true;
  });
  turn_until([&] { return done.load() && kept; });
  asker.join();
  kept(1);
}

TEST_F(MailboxTest, more_than_it_holds_is_refused_at_once_and_later_taken_again) {
  std::size_t run = 0;
  for (std::size_t i = 0; i < Mailbox::kCalls; ++i) {
    EXPECT_TRUE(mailbox.post([&] { ++run; }));
  }
  EXPECT_FALSE(mailbox.post([&] { ++run; }));
  const auto none = mailbox.ask<int>([&](const std::function<void(int)>&) { ++run; }, 60s);
  EXPECT_EQ(none, std::nullopt);
  turn_until([&] { return run >= Mailbox::kCalls; });
  EXPECT_EQ(run, Mailbox::kCalls);
  EXPECT_TRUE(mailbox.post([&] { ++run; }));
}

TEST_F(MailboxTest, closing_wakes_whoever_waits_and_takes_no_more) {
  std::atomic<bool> asked = false;
  std::optional<int> got = 1;
  std::thread asker(
      [&] { got = mailbox.ask<int>([&](const std::function<void(int)>&) { asked = true; }, 60s); });
  turn_until([&] { return asked.load(); });
  mailbox.close();
  asker.join();
  EXPECT_EQ(got, std::nullopt);
  EXPECT_FALSE(mailbox.post([&] { got = 2; }));
  const loop::Timer limit = loop.after(20ms, [] {});
  loop.turn();
  EXPECT_EQ(got, std::nullopt);
}

}  // namespace
}  // namespace moonfence::os
