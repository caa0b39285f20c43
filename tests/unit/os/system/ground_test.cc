#include <algorithm>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/system/clocks.h"
#include "os/system/entropy.h"
#include "os/system/process.h"
#include "port/seeded_random.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;

TEST(ClocksTest, wall_clock_tells_the_time_of_day) {
  SystemWallClock clock;
  EXPECT_LT(std::chrono::abs(clock.now() - std::chrono::system_clock::now()), 5s);
}

TEST(ClocksTest, cpu_clock_counts_work_only) {
  ThreadCpuClock clock;
  const Duration before = clock.thread_time();
  volatile std::uint64_t sum = 0;
  while (clock.thread_time() - before < 1ms) {
    sum = sum + 1;
  }
  EXPECT_GT(sum, 0U);
}

TEST(SeededRandomTest, same_seed_gives_the_published_sequence) {
  // xoshiro256** with the splitmix64 states of seed 0.
  port::SeededRandom random(0);
  EXPECT_EQ(random.next(), 0x99EC5F36CB75F2B4U);
  EXPECT_EQ(random.next(), 0xBF6E1F784956452AU);
}

TEST(SeededRandomTest, forks_depend_on_the_name_and_not_on_their_order) {
  port::SeededRandom random(7);
  const auto a = random.fork("a");
  const auto b = random.fork("b");
  const auto again = random.fork("a");
  const std::uint64_t first = a->next();
  EXPECT_EQ(first, again->next());
  EXPECT_NE(first, b->next());
  EXPECT_EQ(random.next(), port::SeededRandom(7).next());
}

TEST(SystemRandomTest, two_streams_differ) {
  EXPECT_NE(SystemRandom().next(), SystemRandom().next());
  SystemRandom random;
  for (int i = 0; i < 1000; ++i) {
    const double value = random.unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
  }
}

TEST(ProcessTest, secured_process_dumps_nothing) {
  const int before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  EXPECT_TRUE(secure_process());
  EXPECT_EQ(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
  prctl(PR_SET_DUMPABLE, before, 0, 0, 0);
}

TEST(ProcessTest, it_may_open_as_many_files_as_the_system_allows) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_TRUE(allow_all_descriptors());
  rlimit now{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, std::min<rlim_t>(before.rlim_max, 65536));
  EXPECT_EQ(now.rlim_max, before.rlim_max);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ProcessTest, host_has_a_name) {
  EXPECT_FALSE(host_name().value_or("").empty());
}

TEST(ProcessTest, a_program_that_does_not_lie_beside_this_one_cannot_take_over) {
  char* const arguments[] = {nullptr};
  const Error problem = become("no-such-program", arguments);
  EXPECT_THAT(problem.text, testing::HasSubstr("/no-such-program: no such file"));
  EXPECT_EQ(problem.hint, "it is installed beside os_test");
}

}  // namespace
}  // namespace moonfence::os
