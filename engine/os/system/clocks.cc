#include "os/system/clocks.h"

#include <chrono>
#include <ctime>

#include "base/check.h"

namespace moonfence::os {
namespace {

Duration read_clock(clockid_t clock) {
  timespec time{};
  MOONFENCE_CHECK(clock_gettime(clock, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

WallTime SystemWallClock::now() {
  return WallTime(read_clock(CLOCK_REALTIME));
}

Duration ThreadCpuClock::thread_time() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace moonfence::os
