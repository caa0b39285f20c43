#pragma once

// What a Node object says about its health, reduced to what fencing asks.

#include <string_view>

#include "kube/objects/objects.h"

namespace moonfence::cluster {

enum class Readiness {
  True,
  False,    // the kubelet lives and says no, or a controller said so
  Unknown,  // nobody has heard of the kubelet for the grace period
  Missing,  // the Ready condition is absent; distinct from False and Unknown (row E-21)
  Gone,     // the Node object does not exist
  Failed,   // a health source calls it failed, whatever Ready says
};

[[nodiscard]] Readiness readiness_of(const kube::Node& node);

// "true", "false", "unknown", "missing", "deleted": the words of node.ready_status in policies; and
// "failed".
[[nodiscard]] std::string_view to_string(Readiness readiness);

// Not ready in any way, but there. A deleted node is down only for policies that say so (rows E-20,
// LH-22).
[[nodiscard]] constexpr bool is_down(Readiness readiness) {
  return readiness == Readiness::False || readiness == Readiness::Unknown ||
         readiness == Readiness::Missing || readiness == Readiness::Failed;
}

// Carries a NoSchedule taint that says "down" or "keep off", so that no replacement is bound to it.
// Kubernetes sets its own 4 to 14 ms after NotReady; a pod deleted before that gets its replacement
// bound to the dead node in 4 of 12 runs (measured). Taints of the cluster's own
// ("dedicated=db") do not count: the very pods that live there tolerate them. NoExecute does not
// count either: pods tolerate not-ready and unreachable for 300 s by default.
[[nodiscard]] bool keeps_replacements_off(const kube::Node& node);

}  // namespace moonfence::cluster
