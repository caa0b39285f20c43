#pragma once

// The real clocks behind the ports. The monotonic one is CurlPoller::now().

#include "port/cpu_clock.h"
#include "port/wall_clock.h"

namespace moonfence::os {

class SystemWallClock final : public port::WallClock {
 public:
  [[nodiscard]] WallTime now() override;
};

class ThreadCpuClock final : public port::CpuClock {
 public:
  [[nodiscard]] Duration thread_time() override;
};

}  // namespace moonfence::os
