#pragma once

// The StatefulSet controller: pods by ordinal, each with claims of its own. A pod is made again
// only when the old object of its name is gone, which is why one on a dead node never comes back by
// itself.

#include <string>

#include "sim/ground/ground.h"
#include "sim/ground/work_queue.h"

namespace moonfence::sim {

class StatefulSets final {
 public:
  StatefulSets(const Ground& ground, Informer& sets, Informer& pods);
  StatefulSets(const StatefulSets&) = delete;
  StatefulSets& operator=(const StatefulSets&) = delete;

  // After a restart: look at every set.
  void take_up();

 private:
  void sync(const std::string& uid);
  void create_pod(const Json& set, std::int64_t ordinal);
  void remove_pod(const Json& pod);

  const Ground& ground_;
  Informer& sets_;
  Informer& pods_;
  WorkQueue queue_;
};

// The pod of that ordinal, and its claims where they are not there yet.
[[nodiscard]] Json stateful_pod(const Json& set, std::int64_t ordinal);
void create_claims(ObjectStore& store, const Json& set, std::int64_t ordinal);

}  // namespace moonfence::sim
