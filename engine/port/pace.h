#pragma once

// The pace of a simulation that somebody watches: virtual time beside real time.

#include "base/time.h"

namespace moonfence::port {

class Pace {
 public:
  virtual ~Pace() = default;
  // Returns when the real time since the pace began has reached `real`, at once when it has. False:
  // somebody asked to stop (Ctrl-C, SIGTERM); asked without waiting, too.
  virtual bool wait_until(Duration real) = 0;
};

}  // namespace moonfence::port
