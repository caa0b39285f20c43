#pragma once

// The scheduler: one pod at a time on a node that its taints, its selector and its room allow,
// spread over the nodes, by what its informers know. It does not look at where a volume is
// attached, as the real one does not.

#include <map>
#include <optional>
#include <string>

#include "sim/ground/ground.h"
#include "sim/ground/work_queue.h"

namespace moonfence::sim {

class Scheduler final {
 public:
  Scheduler(const Ground& ground, Informer& nodes, Informer& pods);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

 private:
  void retry_unbound();
  void place(const std::string& uid);
  void bind(const Json& pod, const std::string& node);
  void refuse(const Json& pod);
  [[nodiscard]] std::optional<std::string> choose(const Json& pod);

  const Ground& ground_;
  Informer& nodes_;
  Informer& pods_;
  std::unique_ptr<port::Random> random_;
  // Bound by us, and not yet shown so by the informer: pod UID → node.
  std::map<std::string, std::string> assumed_;
  WorkQueue queue_;
};

// Whether a pod may be placed on a node, capacity aside.
[[nodiscard]] bool fits(const Json& pod, const Json& node);

}  // namespace moonfence::sim
