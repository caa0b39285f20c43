#pragma once

// NodeView is what we believe about one node: the handful of fields that fencing asks about.

#include <optional>
#include <string>
#include <string_view>

#include "base/names.h"
#include "base/time.h"
#include "cluster/nodes/ready_condition.h"
#include "cluster/nodes/standing.h"
#include "kube/objects/objects.h"

namespace moonfence::cluster {

struct NodeView {
  NodeName name;
  Uid uid;
  Readiness readiness = Readiness::Missing;
  bool keeps_replacements_off = false;
  bool unschedulable = false;
  bool control_plane = false;     // by its taint: one without it runs workloads and is a worker
  std::optional<WallTime> since;  // lastTransitionTime of Ready
  std::string boot_id = {};       // "" while its kubelet has not said it
  std::string zone = {};          // "" when the node names none
  // Nothing where nobody asks for it (NodeCache::target).
  kube::KubeletAddress kubelet = {};
  bool dedicated = false;  // a taint of its own keeps ordinary pods off
  bool excluded = false;   // the administrator leaves it out of the count
  // Why nobody may touch it (fence/rules/hold_annotations): it is known when the Node's object is
  // gone, too.
  std::optional<std::string> hold = {};
  // Whoever looks for the first time sees that its kubelet never said Ready, and since when it is
  // cordoned.
  bool never_ready = false;
  std::optional<WallTime> cordoned = {};
  Standing standing = {};  // what it counts for; the cache says so
  bool fenced = false;     // carries the taint moonfence.io/fenced:NoSchedule, whoever set it
  // The annotations by which a taint is ours: that one, and Kubernetes' out-of-service; "" without.
  std::string fence_mark = {};
  std::string out_of_service_mark = {};
  std::string silent_mark = {};  // the same of moonfence.io/silent:NoSchedule
  // What is told of it to others (kube::Node).
  std::string evidence_mark = {};
  bool evidence_stands = false;

  // It has to prove itself clean before these go.
  [[nodiscard]] bool is_marked() const {
    return !fence_mark.empty() || !out_of_service_mark.empty();
  }

  friend bool operator==(const NodeView&, const NodeView&) = default;
};

// The taint of the engine's own, and the annotation that says whose it is.
constexpr std::string_view kFencedKey = "moonfence.io/fenced";

// That of a node whose machine has fallen silent (fence/silence/silent_taints).
constexpr std::string_view kSilentKey = "moonfence.io/silent";

[[nodiscard]] bool carries_fenced_taint(const kube::Node& node);

// Kubernetes' taint that says that a node is off, and will not write any more.
constexpr std::string_view kOutOfServiceKey = "node.kubernetes.io/out-of-service";

[[nodiscard]] NodeView view_of(const kube::Node& node);

}  // namespace moonfence::cluster
