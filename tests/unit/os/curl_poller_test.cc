#include "os/curl_poller.h"

#include <array>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "loop/loop.h"
#include "os/descriptor.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;

struct CurlPollerTest : testing::Test {
  CurlPoller poller;
  loop::Loop loop{poller};
  Descriptor reader;
  Descriptor writer;

  CurlPollerTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }
  char take() {
    char c = '-';
    return ::read(reader.get(), &c, 1) == 1 ? c : '-';
  }
  void put(char c) { EXPECT_EQ(::write(writer.get(), &c, 1), 1); }
};

TEST_F(CurlPollerTest, timer_is_never_early_and_takes_one_wait) {
  for (const Duration delay : {Duration(300us), Duration(1500us), Duration(12ms)}) {
    bool fired = false;
    const Moment start = poller.now();
    const std::uint64_t turns = loop.turns();
    // Refreshes now(); without a timer the turn would wait for minutes.
    const loop::Timer at_once = loop.after(0s, [] {});
    loop.turn();
    const loop::Timer timer = loop.after(delay, [&] { fired = true; });
    while (!fired) {
      loop.turn();
    }
    EXPECT_GE(poller.now() - start, delay);
    EXPECT_LE(loop.turns() - turns, 3U);
  }
}

TEST_F(CurlPollerTest, readable_descriptor_wakes_the_loop) {
  std::string heard;
  poller.watch(reader.get(), [&] { heard += take(); });
  put('a');
  put('b');
  loop.turn();
  loop.turn();
  EXPECT_EQ(heard, "ab");
  poller.forget(reader.get());
  put('c');
  const loop::Timer timer = loop.after(1ms, [] {});
  loop.turn();
  EXPECT_EQ(heard, "ab");
}

TEST_F(CurlPollerTest, closed_writer_is_heard) {
  bool heard = false;
  poller.watch(reader.get(), [&] {
    heard = true;
    poller.forget(reader.get());
  });
  writer = Descriptor();
  const loop::Timer limit = loop.after(5s, [] {});
  loop.turn();
  EXPECT_TRUE(heard);
}

TEST_F(CurlPollerTest, descriptor_forgotten_by_another_callback_is_not_called) {
  const Descriptor twin(fcntl(reader.get(), F_DUPFD_CLOEXEC, 0));
  int calls = 0;
  const auto first_wins = [&] {
    ++calls;
    poller.forget(reader.get());
    poller.forget(twin.get());
  };
  poller.watch(reader.get(), first_wins);
  poller.watch(twin.get(), first_wins);
  put('x');
  loop.turn();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace moonfence::os
