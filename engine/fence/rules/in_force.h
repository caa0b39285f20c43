#pragma once

// InForce is what decides whether something may be done: the policies, the configuration, and the
// ledgers that no policy can lift. Owned by app/, outlives every incident.

#include <set>
#include <string>

#include "fence/brake/brake.h"
#include "fence/leadership/leadership.h"
#include "fence/rules/evidence_listener.h"
#include "fence/rules/guard.h"
#include "fence/rules/our_taints.h"
#include "fence/rules/self_doubt.h"
#include "fence/rules/volume_release.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

struct InForce {
  const policy::ActiveSet& active;
  const Leadership& leadership;
  Brake& brake;
  const SelfDoubt& doubt;
  const Protections& protections;
  const std::set<std::string>& fencing_drivers;  // see Authority
  const ReleaseRules& release;
  Quarantine quarantine = Quarantine::Off;    // see Authority
  const cluster::Kernels* kernels = nullptr;  // likewise
  Powers* powers = nullptr;                   // likewise
  EvidenceListener* evidence = nullptr;       // null: nobody wants to hear it
};

}  // namespace moonfence::fence
