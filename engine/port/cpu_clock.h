#pragma once

// CPU time spent by the calling thread, for the limit on a policy's evaluation. Injected like every
// clock: a simulation charges what it likes and a run can be repeated.

#include "base/time.h"

namespace moonfence::port {

class CpuClock {
 public:
  virtual ~CpuClock() = default;
  [[nodiscard]] virtual Duration thread_time() = 0;
};

}  // namespace moonfence::port
