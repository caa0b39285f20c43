#include "fence/rules/selection.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moonfence::fence {

using audit::Reason;

namespace {

// What a machine has by itself, or reads only. Whatever else there is may be written by two pods.
constexpr std::array<std::string_view, 6> kOfOnePod = {"emptyDir",    "configMap", "secret",
                                                       "downwardAPI", "projected", "image"};

// Whether it may write to what another pod can write to, too. Of a pod whose volumes nobody has
// read nobody knows.
bool shares_volumes(const kube::Pod& pod) {
  if (pod.raw == nullptr) {
    return true;
  }
  const nlohmann::json::json_pointer volumes("/spec/volumes");
  if (!pod.raw->contains(volumes)) {
    return false;
  }
  const nlohmann::json& all = (*pod.raw)[volumes];
  return !all.is_array() || std::any_of(all.begin(), all.end(), [](const nlohmann::json& volume) {
    return !volume.is_object() ||
           std::none_of(kOfOnePod.begin(), kOfOnePod.end(),
                        [&volume](std::string_view kind) { return volume.contains(kind); });
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
  if (!allow.finished_pods && pod.has_finished() && !pod.deletion_timestamp) {
    return Reason::FinishedPod;
  }
  if (!allow.bare_pods && controller == nullptr) {
    return pod.owners.empty() ? Reason::BarePod : Reason::OwnerNotController;
  }
  // That a machine is not heard is no proof that nothing runs on it.
  const bool harms_nobody_twice = controller != nullptr && controller->kind == "ReplicaSet" &&
                                  controller->api_version.starts_with("apps/") &&
                                  !shares_volumes(pod);
  if (allow.act_on == policy::ActOn::Lost && !harms_nobody_twice) {
    return Reason::LostIsNoProof;
  }
  return std::nullopt;
}

}  // namespace moonfence::fence
