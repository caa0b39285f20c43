#pragma once

// A Scene is everything a policy can see of one pod, made from Kubernetes objects as kubectl prints
// them: the pod, its node, the counts of the cluster, and the facts that the engine would gather.
// It is made without a cluster, by fixtures of tests and by `policy eval`.
//
// Of a Lease in kube-node-lease that has the node's name, the age is that of its stamp: nobody has
// watched it. Rules where objects are missing: without the pod's Node the node is one of that name
// whose Ready is Unknown; the counts are of the Node objects given. A pod without uid gets one of
// its name.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "policy/host/policy.h"
#include "policy/input/pod_facts.h"
#include "policy/values/facts.h"

namespace moonfence::policy {

struct Scene {
  nlohmann::json pod;
  nlohmann::json node;
  ClusterFacts cluster;
  NodeFacts node_facts;
  std::optional<WallTime> lease_renewed;  // by the node's Lease, if that is there
  PodFacts facts;
  nlohmann::json settings = nlohmann::json::object();
  bool now_given = false;
  // By need: what the objects lack for it. A policy that declares the need cannot be asked.
  std::map<std::string, std::string> gaps;
};

// The node's facts at the scene's time.
[[nodiscard]] NodeFacts node_facts_of(const Scene& scene);

// `pod` is "NAME", "NAMESPACE/NAME" or "" when there is only one. `patch` is an object of values by
// input path ("pod.owner.kind": "Job"); `false` removes what is no truth value.
[[nodiscard]] Result<Scene> make_scene(const Objects& objects, const std::string& pod,
                                       const nlohmann::json& patch);

}  // namespace moonfence::policy
