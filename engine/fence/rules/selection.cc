#include "fence/rules/selection.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace moonfence::fence {

using audit::Reason;

namespace {

// Of a pod whose volumes nobody has read nobody knows.
bool has_claims(const kube::Pod& pod) {
  if (pod.raw == nullptr) {
    return true;
  }
  const nlohmann::json::json_pointer volumes("/spec/volumes");
  if (!pod.raw->contains(volumes)) {
    return false;
  }
  const nlohmann::json& all = (*pod.raw)[volumes];
  return !all.is_array() || std::any_of(all.begin(), all.end(), [](const nlohmann::json& volume) {
    return !volume.is_object() || volume.contains("persistentVolumeClaim") ||
           volume.contains("ephemeral") || volume.contains("csi");
  });
}

}  // namespace

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
  // That a machine is not heard is no proof that nothing runs on it.
  const bool harms_nobody_twice =
      controller != nullptr && controller->kind == "ReplicaSet" && !has_claims(pod);
  if (allow.lost_after > Duration::zero() && !harms_nobody_twice) {
    return Reason::LostIsNoProof;
  }
  return std::nullopt;
}

}  // namespace moonfence::fence
