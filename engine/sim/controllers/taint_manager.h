#pragma once

// The taint manager of kube-controller-manager: deletes the pods of a node with NoExecute taints
// when their tolerations end. It deletes as anybody would, with the pod's grace period, so on a
// dead node the pod stays Terminating.

#include <map>
#include <string>

#include "sim/ground/ground.h"

namespace moonfence::sim {

class TaintManager final {
 public:
  TaintManager(const Ground& ground, Informer& nodes, Informer& pods);
  TaintManager(const TaintManager&) = delete;
  TaintManager& operator=(const TaintManager&) = delete;

  // After a restart: every toleration begins anew.
  void take_up();

 private:
  void saw_node(const Object& before, const Object& after);
  void saw_pod(const Object& after);
  void judge(const Json& pod, const Json& node);
  void evict(const Key& pod, const std::string& uid);

  const Ground& ground_;
  Informer& nodes_;
  Informer& pods_;
  std::map<std::string, loop::Timer> evictions_;  // by pod UID
};

}  // namespace moonfence::sim
