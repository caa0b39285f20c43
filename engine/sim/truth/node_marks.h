#pragma once

// What an administrator marks nodes with, read by the simulation itself from the engine's
// configuration: annotations of others that mean that nobody may touch the node, and labels of
// nodes that are not counted.

#include <set>
#include <string>

#include "sim/ground/plan.h"
#include "sim/store/object.h"

namespace moonfence::sim {

struct NodeMarks {
  std::set<std::string> holds;     // "key" or "key=value"
  std::set<std::string> excluded;  // the same

  // Also by our own annotation.
  [[nodiscard]] bool hold(const Json& node) const;
  [[nodiscard]] bool exclude(const Json& node) const;
};

[[nodiscard]] NodeMarks node_marks(const Plan& plan);
// The annotation moonfence.io/hold of a node, a namespace or a pod.
[[nodiscard]] bool is_held(const Json& object);

}  // namespace moonfence::sim
