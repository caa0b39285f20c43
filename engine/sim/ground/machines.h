#pragma once

// The ground truth under the API: machines with power, connections and containers that write, and
// the storage system that publishes volumes to machines. Only kubelets, the attacher and the plan's
// steps change it; the checkers read it. Nothing of it is visible to the engine.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace moonfence::sim {

struct Container {
  std::string pod_uid;
  std::string space;
  std::string pod;
  std::set<std::string> volumes;  // volume handles that it writes
  // Of those whose storage can refuse its machine (sim/ground/refusals.h): the cluster, by handle.
  std::map<std::string, std::string> clusters = {};
};

// Where every kubelet serves.
inline constexpr std::uint16_t kKubeletPort = 10250;

struct Machine {
  std::string name;
  std::string address;        // no other machine has it
  bool port_is_told = false;  // its Node says kKubeletPort
  bool powered = true;
  bool booting = false;    // it has power, and nothing of it runs yet
  bool connected = true;   // to everybody else: the API servers and the replicas
  double lost_packet = 0;  // each way, of those that replicas ask its kernel with
  bool kubelet = true;
  bool healthy = true;  // what its kubelet posts as Ready
  bool frozen = false;  // its processes stand still and will go on; its kernel works
  std::string boot_id;
  WallTime kubelet_started{};                   // its process
  std::map<std::string, Container> containers;  // running now, by pod UID
  Moment impaired_since{};                      // the last time that sound() changed
  Moment answers_since{};                       // the last time that answers() changed
  Moment switched{};                            // the last time that its power came or went
  [[nodiscard]] bool runs() const { return powered && !booting; }
  [[nodiscard]] bool sound() const { return runs() && connected && kubelet && healthy && !frozen; }
  // Its kernel, to whoever is connected too, whatever became of its processes.
  [[nodiscard]] bool answers() const { return runs() && connected; }
};

// Of a storage, about one address.
struct Refusal {
  bool holds = false;
  Moment changed{};
};

struct Machines {
  std::map<std::string, Machine> by_name;
  // Of kFencedDriver, those that can refuse machines; empty: none can.
  std::vector<std::string> clusters;
  std::map<std::pair<std::string, std::string>, Refusal> refusals;  // by cluster and address
  // Volume handle → names of the machines that the storage system has published it to.
  std::map<std::string, std::set<std::string>> published;
  // Called whenever something happened to a machine or its kubelet; empty: nobody wants to know.
  std::function<void()> on_change;
};

}  // namespace moonfence::sim
