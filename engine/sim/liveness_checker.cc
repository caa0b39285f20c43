#include "sim/liveness_checker.h"

#include <algorithm>

#include "sim/settling.h"

namespace moonfence::sim {

void LivenessChecker::at_end(Duration calm_for) {
  const auto settled = settling_time(plan());
  if (calm_for < settled || truth().policy_edits().empty()) {
    return;
  }
  if (brake_.engaged_within(now(), settled)) {
    return;
  }
  const PolicyEdit& newest = truth().policy_edits().back();
  if (newest.reach == nullptr || newest.lowered || now() - newest.at < settled) {
    return;
  }
  for (const auto& [uid, node] : truth().nodes()) {
    if (!node.down.held_for(now(), settled) || !node.tainted.held_for(now(), settled) ||
        is_own_node_of_all(node.name)) {
      continue;
    }
    for (const auto& [pod_uid, pod] : truth().pods()) {
      if (pod.node == node.name && must_be_gone(pod, node, *newest.reach, settled)) {
        accuse(rules::kNodeDealtWith, "node " + node.name + " is down for " +
                                          format_duration(now() - node.down.changed) +
                                          " and holds pod " + pod.space + "/" + pod.name);
      }
    }
  }
}

bool LivenessChecker::must_be_gone(const PodTruth& pod, const NodeTruth& node, const Reach& reach,
                                   Duration settled) const {
  if (pod.gone || pod.finalized || pod.mirror || pod.controller.empty() ||
      pod.controller == "DaemonSet" || pod.controller == "Node" || pod.finished.holds ||
      now() - pod.bound < settled) {
    return false;
  }
  bool demanded = false;
  for (const BindingReach& binding : reach.bindings) {
    if (!binding.enforces || !binding.covers(pod.space, pod.labels) ||
        (!binding.spared_prefix.empty() && pod.name.starts_with(binding.spared_prefix))) {
      continue;
    }
    if (!binding.deletes) {
      return false;  // it may hold the pod
    }
    demanded = demanded || binding.live_kubelet || node.silent.held_for(now(), settled);
  }
  return demanded;
}

}  // namespace moonfence::sim
