#pragma once

// For how long each replica could have heard machines' kernels, had it asked them: it ran, it was
// connected, and so were they.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "sim/ground/machines.h"

namespace moonfence::sim {

class HeardKernels {
 public:
  // A replica has started, or goes on after it was stopped.
  void runs_since(const std::string& replica, Moment now);
  void set_partitioned(const std::string& replica, bool partitioned, Moment now);
  void set_link_cut(const std::string& replica, const std::string& machine, bool cut, Moment now);

  // Without an interruption; nothing while it cannot.
  [[nodiscard]] std::optional<Duration> heard_for(const Machines& machines,
                                                  const std::string& machine,
                                                  const std::string& replica, Moment now) const;

 private:
  // Since when it could hear anything; nothing while it is cut off.
  std::map<std::string, std::optional<Moment>> since_;
  // Likewise one machine, where the way to it was cut once.
  std::map<std::pair<std::string, std::string>, std::optional<Moment>> links_;
};

}  // namespace moonfence::sim
