#pragma once

// The ground truth under the API: machines with power, connections and containers that write, and
// the storage system that publishes volumes to machines. Only kubelets, the attacher and the plan's
// steps change it; the checkers read it. Nothing of it is visible to the engine.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"

namespace moonfence::sim {

struct Container {
  std::string pod_uid;
  std::string space;
  std::string pod;
  std::set<std::string> volumes;  // volume handles that it writes
};

struct Machine {
  std::string name;
  bool powered = true;
  bool connected = true;  // to the API server
  bool kubelet = true;
  bool healthy = true;  // what its kubelet posts as Ready
  std::string boot_id;
  WallTime kubelet_started{};                   // its process
  std::map<std::string, Container> containers;  // running now, by pod UID
  Moment impaired_since{};  // of powered, connected, kubelet, healthy: the last time all became
                            // true/false
  [[nodiscard]] bool sound() const { return powered && connected && kubelet && healthy; }
};

struct Machines {
  std::map<std::string, Machine> by_name;
  // Volume handle → names of the machines that the storage system has published it to.
  std::map<std::string, std::set<std::string>> published;
};

}  // namespace moonfence::sim
