#pragma once

// For how long each replica could have heard machines' kernels, had it asked them: it ran, it was
// connected, and so were they.

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "sim/ground/machines.h"

namespace moonfence::sim {

class HeardKernels {
 public:
  // A replica has started, or goes on after it was stopped.
  void runs_since(const std::string& replica, Moment now);
  void set_partitioned(const std::string& replica, bool partitioned, Moment now);

  // Without an interruption; nothing while it cannot.
  [[nodiscard]] std::optional<Duration> heard_for(const Machines& machines,
                                                  const std::string& machine,
                                                  const std::string& replica, Moment now) const;

 private:
  // Since when it could hear anything; nothing while it is cut off.
  std::map<std::string, std::optional<Moment>> since_;
};

}  // namespace moonfence::sim
