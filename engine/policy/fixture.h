#pragma once

// A Scene is everything a policy can see of one pod, made from Kubernetes objects as kubectl prints
// them: the pod, its node, the counts of the cluster, and the facts that the engine would gather.
// It is made without a cluster, by fixtures of tests and by `policy eval`.
//
// Rules where objects are missing: without the pod's Node the node is one of that name whose Ready
// is Unknown; the counts are of the Node objects given. A pod without uid gets one of its name.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "policy/facts.h"
#include "policy/policy.h"

namespace moonfence::policy {

// Kubernetes objects. Shared: many cases stand on one fixture.
using Objects = std::vector<std::shared_ptr<const nlohmann::json>>;

struct Scene {
  nlohmann::json pod;
  nlohmann::json node;
  ClusterFacts cluster;
  NodeFacts node_facts;
  PodFacts facts;
  nlohmann::json settings = nlohmann::json::object();
  bool now_given = false;
  // By need: what the objects lack for it. A policy that declares the need cannot be asked.
  std::map<std::string, std::string> gaps;
};

// `pod` is "NAME", "NAMESPACE/NAME" or "" when there is only one. `patch` is an object of values by
// input path ("pod.owner.kind": "Job"); `false` removes what is no truth value.
[[nodiscard]] Result<Scene> make_scene(const Objects& objects, const std::string& pod,
                                       const nlohmann::json& patch);

// The objects of a kind.
[[nodiscard]] std::vector<const nlohmann::json*> of_kind(const Objects& objects,
                                                         std::string_view kind);

// Fills in the facts about a pod, and the gaps. Placement candidates are Nodes other than the
// pod's that are Ready, not cordoned, match its nodeSelector, and have no NoSchedule or NoExecute
// taint that it does not tolerate; affinity, resources and topology are not looked at.
void gather_facts(const Objects& objects, Scene& scene);

// The name the CSI attacher gives a VolumeAttachment: "csi-" and SHA-256 of handle, driver, node.
[[nodiscard]] std::string attachment_name(std::string_view handle, std::string_view driver,
                                          std::string_view node);

}  // namespace moonfence::policy
