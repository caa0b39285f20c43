#include "fence/proof/demanded_proof.h"

#include <algorithm>

namespace moonfence::fence {

using policy::EvidenceSet;
using policy::ProofDemands;

ProofDemands DemandedProof::of(const Namespace& space, const KnownDrivers& used) const {
  ProofDemands demands = {everywhere};
  if (const auto found = namespaces.find(space); found != namespaces.end()) {
    demands.push_back(found->second);
  }
  for (const auto& [driver, demand] : drivers) {
    if (!used || used->contains(driver)) {
      demands.push_back(demand);
    }
  }
  return demands;
}

std::optional<EvidenceSet> unmet(const ProofDemands& demands, EvidenceSet there) {
  const auto found = std::find_if(demands.begin(), demands.end(), [there](EvidenceSet demand) {
    return !demand.empty() && !demand.shares_one_with(there);
  });
  return found == demands.end() ? std::nullopt : std::optional(*found);
}

}  // namespace moonfence::fence
