#include "os/system/signals.h"

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "loop/loop.h"
#include "os/net/curl_poller.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;

struct SignalsTest : testing::Test {
  CurlPoller poller;
  loop::Loop loop{poller};
  std::string heard;

  Signals::Actions actions() {
    return {.drain = [this] { heard += "drain "; },
            .now = [this] { heard += "now "; },
            .report = [this] { heard += "report "; }};
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      const loop::Timer limit = loop.after(20ms, [] {});
      loop.turn();
    }
  }
};

TEST_F(SignalsTest, first_stop_drains_and_the_second_is_immediate) {
  const auto signals = Signals::open(poller, actions());
  ASSERT_TRUE(signals);
  std::raise(SIGTERM);
  turns(1);
  EXPECT_EQ(heard, "drain ");
  std::raise(SIGINT);
  turns(1);
  EXPECT_EQ(heard, "drain now ");
}

TEST_F(SignalsTest, two_signals_at_once_are_both_heard) {
  const auto signals = Signals::open(poller, actions());
  std::raise(SIGTERM);
  std::raise(SIGINT);
  turns(2);
  EXPECT_EQ(heard, "drain now ");
}

TEST_F(SignalsTest, report_does_not_count_as_a_stop) {
  const auto signals = Signals::open(poller, actions());
  std::raise(SIGUSR1);
  turns(1);
  std::raise(SIGTERM);
  turns(1);
  EXPECT_EQ(heard, "report drain ");
}

TEST_F(SignalsTest, broken_pipe_does_not_kill) {
  const auto signals = Signals::open(poller, actions());
  std::raise(SIGPIPE);
  turns(1);
  EXPECT_EQ(heard, "");
}

TEST_F(SignalsTest, closing_swallows_what_is_pending_and_restores_the_mask) {
  {
    const auto signals = Signals::open(poller, actions());
    std::raise(SIGTERM);
  }
  sigset_t mask{};
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGTERM));
  EXPECT_EQ(heard, "");
}

}  // namespace
}  // namespace moonfence::os
