#pragma once

// Eviction is what Kubernetes does to the pods of a node with the taint
// node.kubernetes.io/out-of-service: every pod that does not tolerate it is deleted, and removed by
// force once it is being deleted, for whatever reason: unreachable and not-ready come beside it.
// Whoever sets the taint does all that at once. Pure.

#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "audit/reason.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

struct Eviction {
  std::vector<kube::Pod> pods;                  // that would go, without their JSON
  bool complete = false;                        // these are all
  Moment listed{};                              // when they were asked for
  Duration took{};                              // until they and what policies need were known
  std::optional<audit::Reason> objection = {};  // of a policy that enforces
  std::optional<int> kubernetes = {};           // the server's version: 1.x
  policy::ProofDemands proof = {};              // of all policies that enforce, about any of them
};

// Kubernetes heeds the taint (KEP 2268): 1.26 and 1.27 by a feature gate that is on by default.
constexpr int kServesOutOfService = 26;

// Whether some policy of the set may put a node out of service: all its pods are listed then, and
// policies that can forbid are asked about each.
[[nodiscard]] bool may_taint(const policy::PolicySet& set);

// `pod` with its JSON. One that is being deleted goes whatever it tolerates: the garbage collector
// of pods removes it. One with claims counts as well: its volumes may be detached.
[[nodiscard]] bool is_evicted(const kube::Pod& pod);

// x of 1.x, from the answer to GET /version ("20+" is 20); nullopt: it cannot be told.
[[nodiscard]] std::optional<int> minor_version(const nlohmann::json& answer);

}  // namespace moonfence::fence
