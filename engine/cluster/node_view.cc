#include "cluster/node_view.h"

#include <algorithm>

namespace moonfence::cluster {
namespace {

bool is_control_plane(const kube::Node& node) {
  return std::any_of(node.taints.begin(), node.taints.end(), [](const kube::Taint& taint) {
    return taint.key == "node-role.kubernetes.io/control-plane" ||
           taint.key == "node-role.kubernetes.io/master";
  });
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
          .zone = node.zone,
          .fenced = carries_fenced_taint(node),
          .fence_mark = node.fence_mark,
          .out_of_service_mark = node.out_of_service_mark};
}

}  // namespace moonfence::cluster
