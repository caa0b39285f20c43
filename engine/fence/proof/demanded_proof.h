#pragma once

// DemandedProof is what the engine's own configuration demands to be known before a pod is deleted
// (setting `proof`). It comes on top of what policies demand, and none of them can lower it. Pure.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/names.h"
#include "base/time.h"
#include "policy/values/evidence.h"

namespace moonfence::fence {

// When what lacks proof is looked at again.
constexpr Duration kProofPause = std::chrono::seconds(5);

// CSI drivers of a pod's volumes; nullopt: nobody has looked.
using KnownDrivers = std::optional<std::set<std::string>>;

struct DemandedProof {
  policy::EvidenceSet everywhere = {};
  std::map<Namespace, policy::EvidenceSet> namespaces = {};
  std::map<std::string, policy::EvidenceSet> drivers = {};

  // For a pod of that namespace. Where its drivers are not known it may use any of them.
  [[nodiscard]] policy::ProofDemands of(const Namespace& space, const KnownDrivers& used) const;
};

// Of these demands the first for which there is no evidence; nullopt: there is some for each.
[[nodiscard]] std::optional<policy::EvidenceSet> unmet(const policy::ProofDemands& demands,
                                                       policy::EvidenceSet there);

}  // namespace moonfence::fence
