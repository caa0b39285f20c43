#pragma once

// The ReplicaSet controller: a pod that is being deleted or has failed does not count, so its
// replacement is made at once, and waits for the volumes of the old one. Deployments are written by
// hand, each with the one ReplicaSet that it would have made.

#include <map>
#include <set>
#include <string>

#include "sim/ground/ground.h"
#include "sim/ground/work_queue.h"

namespace moonfence::sim {

class ReplicaSets final {
 public:
  ReplicaSets(const Ground& ground, Informer& sets, Informer& pods);
  ReplicaSets(const ReplicaSets&) = delete;
  ReplicaSets& operator=(const ReplicaSets&) = delete;

  // After a restart: look at every set.
  void take_up();

 private:
  void sync(const std::string& uid);

  const Ground& ground_;
  Informer& sets_;
  Informer& pods_;
  // By ReplicaSet: UIDs of pods that were made, or deleted, and that the informer does not show so.
  std::map<std::string, std::set<std::string>> awaited_;
  std::map<std::string, std::set<std::string>> leaving_;
  WorkQueue queue_;
};

[[nodiscard]] Json replica_pod(const Json& set);

}  // namespace moonfence::sim
