#include "fence/selection.h"

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
  if (!allow.finished_pods && (pod.phase == "Succeeded" || pod.phase == "Failed")) {
    return Reason::FinishedPod;
  }
  if (!allow.bare_pods && controller == nullptr) {
    return Reason::BarePod;
  }
  return std::nullopt;
}

}  // namespace moonfence::fence
