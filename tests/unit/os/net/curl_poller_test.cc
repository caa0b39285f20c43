#include "os/net/curl_poller.h"

#include <array>
#include <ctime>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/loop.h"
#include "os/system/descriptor.h"

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

Moment read_clock(clockid_t clock) {
  timespec time{};
  EXPECT_EQ(clock_gettime(clock, &time), 0);
  return Moment(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

int exit_code_of(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether now() is an hour ahead of the clock that a suspension stops, on a machine that has been
// suspended for an hour more than this one: in a time namespace, which only root may make, and only
// children enter. 0 yes, 1 no, 2 nobody may make one here.
int judge_after_a_suspension() {
  if (unshare(CLONE_NEWTIME) != 0) {
    return 2;
  }
  if (!(std::ofstream("/proc/self/timens_offsets") << "boottime 3600 0\n" << std::flush)) {
    return 2;  // /proc may be read-only, as in the root that mmdebstrap makes
  }
  const pid_t child = fork();
  if (child == 0) {
    CurlPoller suspended;
    const Moment stopped_clock = read_clock(CLOCK_MONOTONIC);
    _exit(suspended.now() - stopped_clock >= 1h ? 0 : 1);
  }
  return exit_code_of(child);
}

TEST_F(CurlPollerTest, its_clock_counts_the_time_of_a_suspension) {
  const Moment before = read_clock(CLOCK_BOOTTIME);
  const Moment now = poller.now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, read_clock(CLOCK_BOOTTIME));
  const pid_t child = fork();
  if (child == 0) {
    _exit(judge_after_a_suspension());
  }
  const int judged = exit_code_of(child);
  EXPECT_TRUE(judged == 0 || judged == 2) << judged;  // 2: nobody may make one here
}

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

TEST_F(CurlPollerTest, room_for_output_wakes_the_loop) {
  int rooms = 0;
  poller.watch(
      writer.get(), [&] { ++rooms; }, Descriptors::Wait::Output);
  loop.turn();
  loop.turn();
  EXPECT_EQ(rooms, 2);
  while (::write(writer.get(), "x", 1) == 1) {
  }
  const loop::Timer full = loop.after(1ms, [] {});
  loop.turn();
  EXPECT_EQ(rooms, 2);
}

TEST_F(CurlPollerTest, descriptor_watched_again_is_watched_for_that_alone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  std::string heard;
  const auto input = [&] {
    char c = '-';
    EXPECT_EQ(::read(ours.get(), &c, 1), 1);
    heard += c;
  };
  // Inside its own callback, as one that has connected.
  const auto output = [&] {
    heard += '>';
    poller.watch(ours.get(), input);
  };
  poller.watch(ours.get(), output, Descriptors::Wait::Output);
  loop.turn();
  const loop::Timer quiet = loop.after(1ms, [] {});
  loop.turn();
  EXPECT_EQ(heard, ">") << "there is still room for output";
  EXPECT_EQ(::write(theirs.get(), "a", 1), 1);
  loop.turn();
  EXPECT_EQ(heard, ">a");
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
