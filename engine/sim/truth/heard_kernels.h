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
  // It starts or goes on, or it died or was stopped.
  void set_running(const std::string& replica, bool runs, Moment now);
  void set_partitioned(const std::string& replica, bool partitioned, Moment now);
  void set_link_cut(const std::string& replica, const std::string& machine, bool cut, Moment now);

  // Without an interruption; nothing while it cannot.
  [[nodiscard]] std::optional<Duration> heard_for(const Machines& machines,
                                                  const std::string& machine,
                                                  const std::string& replica, Moment now) const;
  // The same of any other replica, for as long as this one could ask it.
  [[nodiscard]] std::optional<Duration> heard_elsewhere_for(const Machines& machines,
                                                            const std::string& machine,
                                                            const std::string& replica,
                                                            Moment now) const;

 private:
  struct Replica {
    bool runs = false;
    bool partitioned = false;
    Moment changed{};

    // Since when it could hear anything.
    [[nodiscard]] std::optional<Moment> hears_since() const {
      return runs && !partitioned ? std::optional(changed) : std::nullopt;
    }
  };
  [[nodiscard]] std::optional<Moment> hears_since(const std::string& replica) const;

  std::map<std::string, Replica> replicas_;
  // Since when one could hear a machine, where the way to it was cut once; nothing while it is.
  std::map<std::pair<std::string, std::string>, std::optional<Moment>> links_;
};

}  // namespace moonfence::sim
