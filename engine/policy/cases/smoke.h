#pragma once

// Pods that every policy must be able to judge before it comes into force: as little as the API
// server lets a pod have, a pod with everything, one without an owner, one whose claim leads
// nowhere. Indexing what a fresh object lacks is the most frequent fault of scripts (argo-cd
// #29055); it must not show in the middle of an incident. Any verdict will do, an error will not.

#include <string>
#include <vector>

#include "kube/objects/objects.h"
#include "policy/host/policy.h"
#include "policy/values/facts.h"

namespace moonfence::policy {

struct SmokeCase {
  std::string name;  // "a pod without an owner"
  kube::Pod pod;
  kube::Node node;
  ClusterFacts cluster;
  NodeFacts facts;
  PodFacts gathered;  // for every need there is
};

[[nodiscard]] const std::vector<SmokeCase>& smoke_cases();

}  // namespace moonfence::policy
