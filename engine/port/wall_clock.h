#pragma once

// The time of day, for records and for comparing with API objects. Nothing waits by it.

#include "base/time.h"

namespace moonfence::port {

class WallClock {
 public:
  virtual ~WallClock() = default;
  [[nodiscard]] virtual WallTime now() = 0;
};

}  // namespace moonfence::port
