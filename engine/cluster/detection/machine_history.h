#pragma once

// MachineHistory remembers how machines went between answering and not, in the last minutes, for
// people who look. A machine that answered all the while is not in it. Pure.

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/time.h"
#include "cluster/detection/kernel.h"

namespace moonfence::cluster {

class MachineHistory {
 public:
  static constexpr Duration kRemembered = std::chrono::minutes(10);
  static constexpr std::size_t kMostChanges = 30;  // of one machine; the oldest go first

  struct Change {
    WallTime at{};
    Kernel kernel = Kernel::Answers;

    friend bool operator==(const Change&, const Change&) = default;
  };
  struct Machine {
    NodeName node;
    std::optional<WallTime> last_sign;  // before it fell silent; nullopt: it has not
    std::vector<Change> changes;        // before the first it answered, or was not known
  };

  // Once a second of each machine. `quiet`: for how long it was not heard; nullopt: it never was.
  void note(const NodeName& node, Kernel kernel, std::optional<Duration> quiet, WallTime now);
  void forget(const NodeName& node) { machines_.erase(node); }

  // Silent ones first, those that nobody can hear last, by name; `most` of them, and how many more
  // there are.
  [[nodiscard]] std::pair<std::vector<Machine>, std::size_t> machines(std::size_t most) const;

 private:
  std::map<NodeName, Machine> machines_;
};

}  // namespace moonfence::cluster
