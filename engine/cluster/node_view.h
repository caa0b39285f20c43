#pragma once

// NodeView is what we believe about one node: the handful of fields that fencing asks about.

#include <optional>
#include <string>

#include "base/names.h"
#include "base/time.h"
#include "cluster/readiness.h"
#include "kube/objects.h"

namespace moonfence::cluster {

struct NodeView {
  NodeName name;
  Uid uid;
  Readiness readiness = Readiness::Missing;
  bool keeps_replacements_off = false;
  bool unschedulable = false;
  bool control_plane = false;     // by its taint: one without it runs workloads and is a worker
  std::optional<WallTime> since;  // lastTransitionTime of Ready
  ResourceVersion resource_version;
  std::string zone = {};  // "" when the node names none

  friend bool operator==(const NodeView&, const NodeView&) = default;
};

[[nodiscard]] NodeView view_of(const kube::Node& node);

}  // namespace moonfence::cluster
