#include "cluster/nodes/node_view.h"

#include <algorithm>

namespace moonfence::cluster {
namespace {

bool is_control_plane(const kube::Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const kube::Taint& taint) {
    return taint.key == "node-role.kubernetes.io/control-plane" ||
           taint.key == "node-role.kubernetes.io/master";
  });
}

// Taints by which Kubernetes, a cloud or we ourselves say how a node is; not what it is for.
bool tells_a_state(const std::string& key) {
  return key.starts_with("node.kubernetes.io/") ||
         key.starts_with("node.cloudprovider.kubernetes.io/") || key.starts_with("moonfence.io/");
}

bool is_dedicated(const kube::Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const kube::Taint& taint) {
    return (taint.effect == "NoSchedule" || taint.effect == "NoExecute") &&
           !tells_a_state(taint.key);
  });
}

// kube-controller-manager says of which node it has never heard. And Kubernetes keeps the moment at
// which Ready got the status it has: where that is the moment in which the node was made, it has
// had no other. A kubelet says its boot and Ready in one breath: where there is the one without the
// other, somebody took Ready away, and what it was before nobody knows.
bool was_never_ready(const kube::Node& node) {
  constexpr Duration kMade = std::chrono::seconds(2);
  if (!node.ready) {
    return node.boot_id.empty();
  }
  return node.ready->reason == "NodeStatusNeverUpdated" ||
         (node.ready->status != "True" && node.ready->last_transition_time && node.created &&
          *node.ready->last_transition_time <= *node.created + kMade);
}

}  // namespace

bool carries_fenced_taint(const kube::Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const kube::Taint& taint) {
    return taint.key == kFencedKey && taint.effect == "NoSchedule";
  });
}

NodeView view_of(const kube::Node& node) {
  return {.name = node.name,
          .uid = node.uid,
          .readiness = readiness_of(node),
          .keeps_replacements_off = keeps_replacements_off(node),
          .unschedulable = node.unschedulable,
          .control_plane = is_control_plane(node),
          .since = node.ready ? node.ready->last_transition_time : std::nullopt,
          .boot_id = node.boot_id,
          .zone = node.zone,
          .kubelet = node.kubelet,
          .dedicated = is_dedicated(node),
          .never_ready = was_never_ready(node),
          .cordoned = node.cordoned,
          .fenced = carries_fenced_taint(node),
          .fence_mark = node.fence_mark,
          .out_of_service_mark = node.out_of_service_mark,
          .silent_mark = node.silent_mark,
          .evidence_mark = node.evidence_mark,
          .evidence_stands = node.evidence_stands};
}

}  // namespace moonfence::cluster
