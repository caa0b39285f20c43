#pragma once

// A capture is what policies can see of a node's pods, as Kubernetes objects, and what the policies
// in force said of each: fixtures for `moonfence policy test` and `eval`, and what `replay` decides
// again. Pure.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/rehearsal/plan.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::app {

// What is in nobody's interest to keep is taken out: values of environment variables, which may be
// secret, managed fields, and kubectl's copy of the whole object.
[[nodiscard]] nlohmann::json redacted(nlohmann::json object);

// The claims that a pod names, for finding who else uses them.
[[nodiscard]] std::vector<std::string> claims_named_by(const nlohmann::json& pod);

// {"node", "at",
//  "bindings": [{"policy", "namespaces", "allow", "settings"}],  as they were in force
//  "held": [{"policy", "reason", "text"}],  why its pods were not asked about, or not at once
//  "pods": [{"namespace", "name", "policies": {NAME: {"verdict", "reason"}}}]}
// A policy that selects a pod and was not asked about it has the verdict "not_asked"; one that is
// not named does not select it, or nobody is asked about such a pod. Of `objects` its pods count.
[[nodiscard]] nlohmann::ordered_json decisions_of(const Plan::Node& node,
                                                  const policy::PolicySet& set,
                                                  const nlohmann::json& objects, WallTime at);

// "delete_pod" of policy_deletes_pod, "deferred" of needs_unread, and so on; "" for what is no word
// of a policy.
[[nodiscard]] std::string verdict_of(std::string_view reason);

}  // namespace moonfence::app
