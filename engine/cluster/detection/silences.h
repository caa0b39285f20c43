#pragma once

// Silences counts how often a machine was silent and came back without having been restarted: how
// often it would have been wrong to act on its silence, by how long one waits. An administrator
// reads off it what `after` would have cost on this cluster.
//
// Whether a machine was restarted is known only when its kubelet tells the boot ID again. So a
// silence counts ten minutes after its end, if the boot ID is still the one of before. Pure.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/time.h"

namespace moonfence::cluster {

class Silences {
 public:
  static constexpr std::array<Duration, 6> kAges = {
      std::chrono::seconds(4),  std::chrono::seconds(6),  std::chrono::seconds(8),
      std::chrono::seconds(12), std::chrono::seconds(20), std::chrono::seconds(40)};
  static constexpr Duration kUntilItCounts = std::chrono::minutes(10);
  // How many silences lasted at least as long as each of kAges.
  using Lasted = std::array<std::uint64_t, kAges.size()>;

  // The node's machine is heard again. `boot_id`: as it was known before; "" not known.
  void ended(const NodeName& node, const std::string& boot_id, Duration lasted, Moment now);
  // The node, as its kubelet describes it.
  void saw(const NodeName& node, const std::string& boot_id);
  // Nothing is known of it any more.
  void forget(const NodeName& node) { pending_.erase(node); }

  // Those that count by now.
  [[nodiscard]] const Lasted& lasted(Moment now);

 private:
  struct Pending {
    std::string boot_id;
    Duration lasted;
    Moment ended;
  };

  std::map<NodeName, std::vector<Pending>> pending_;
  Lasted lasted_{};
};

}  // namespace moonfence::cluster
