#pragma once

// What the candidates are asked about: a pod with everything, the least that the API server lets a
// pod have, one that is starting, and one whose fields are all of the wrong type.

#include <vector>

#include <nlohmann/json.hpp>

#include "kube/objects/objects.h"
#include "policy/host/policy.h"

namespace moonfence::fuzz {

struct Case {
  kube::Pod pod;
  kube::Node node;
  policy::NodeFacts facts;
  policy::PodFacts known;
  nlohmann::json answer;  // to every request
};

[[nodiscard]] const std::vector<Case>& cases();

}  // namespace moonfence::fuzz
