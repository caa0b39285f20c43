#include "fence/rules/selection.h"

namespace moonfence::fence {

using audit::Reason;

std::optional<Reason> left_alone(const kube::Pod& pod, const policy::Allowances& allow) {
  if (pod.is_mirror) {
    return Reason::MirrorPod;
  }
  const kube::OwnerReference* controller = pod.controller();
  // A static pod's shadow is owned by its Node; some tools drop the mirror annotation.
  if (controller != nullptr && controller->kind == "Node") {
    return Reason::MirrorPod;
  }
  if (controller != nullptr && controller->kind == "DaemonSet") {
    return Reason::DaemonSetPod;
  }
  // One whose deletion is under way holds its name, and its kubelet is the only one that would let
  // it go: nothing runs in it any more.
  const bool has_finished = pod.phase == "Succeeded" || pod.phase == "Failed";
  if (!allow.finished_pods && has_finished && !pod.deletion_timestamp) {
    return Reason::FinishedPod;
  }
  if (!allow.bare_pods && controller == nullptr) {
    return pod.owners.empty() ? Reason::BarePod : Reason::OwnerNotController;
  }
  return std::nullopt;
}

}  // namespace moonfence::fence
