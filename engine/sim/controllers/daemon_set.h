#pragma once

// The DaemonSet controller, as far as fencing meets it: one pod on each node, pinned there by
// affinity and tolerating everything; made again when it is gone or has failed.

#include <map>
#include <set>
#include <string>

#include "sim/ground/ground.h"
#include "sim/ground/work_queue.h"

namespace moonfence::sim {

class DaemonSets final {
 public:
  DaemonSets(const Ground& ground, Informer& sets, Informer& nodes, Informer& pods);
  DaemonSets(const DaemonSets&) = delete;
  DaemonSets& operator=(const DaemonSets&) = delete;

  // After a restart: look at every set.
  void take_up();

 private:
  void sync(const std::string& uid);

  const Ground& ground_;
  Informer& sets_;
  Informer& nodes_;
  Informer& pods_;
  std::map<std::string, std::set<std::string>> awaited_;  // as in ReplicaSets
  WorkQueue queue_;
};

[[nodiscard]] Json daemon_pod(const Json& set, const std::string& node);
// The one node that a pod is pinned to; empty: none.
[[nodiscard]] const std::string& pinned_node(const Json& pod);

}  // namespace moonfence::sim
