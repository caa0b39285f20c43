#pragma once

// The pod garbage collector of kube-controller-manager: every 20 s it looks for pods whose node
// does not exist, and removes them by force when it still does not 40 s later. From 1.26 on also
// for pods that are being deleted on a node that is not Ready and out of service: those it removes
// at once.

#include <map>
#include <memory>
#include <string>

#include "sim/ground/ground.h"

namespace moonfence::sim {

class PodGc final {
 public:
  PodGc(const Ground& ground, Informer& nodes, Informer& pods);
  PodGc(const PodGc&) = delete;
  PodGc& operator=(const PodGc&) = delete;

 private:
  void look();
  void collect(const std::string& node);
  void collect_out_of_service();

  const Ground& ground_;
  Informer& nodes_;
  Informer& pods_;
  std::unique_ptr<port::Random> random_;
  std::map<std::string, loop::Timer> missing_;  // nodes in quarantine
  loop::Timer timer_;
};

}  // namespace moonfence::sim
