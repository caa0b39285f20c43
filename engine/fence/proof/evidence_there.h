#pragma once

// What is known at this moment of a node that seems to be dead, and what to say when that is less
// than what is demanded. Pure.

#include <set>
#include <string>
#include <string_view>

#include "base/names.h"
#include "fence/proof/attestation.h"
#include "fence/proof/powers.h"
#include "policy/values/evidence.h"

namespace moonfence::fence {

struct Sightings {
  bool exists = true;        // the Node object of the machine that we mean is there
  bool unreachable = false;  // Kubernetes calls it Unknown, and its Lease is dead
  bool silent = false;       // its machine, to both replicas
  bool may_live = false;     // its machine answers, or it is being found out whether it does
  const AttestationCheck& attestation;  // must outlive it
  std::optional<PowerReading> power = std::nullopt;
  std::string fencers = {};  // what they say, for people; "" where none is bound to the node
  // CSI drivers of all storage of the pod, or the volume, that it is about
  // (policy/input/pod_storage); empty: of none, or not of these alone, so that no isolation is
  // enough.
  std::set<std::string> storage = {};
};

// What such a word about a machine is, for storage as in Sightings: Off, or Isolated where all of
// it refuses the machine, or none.
[[nodiscard]] policy::EvidenceSet evidence_by(const policy::PowerState& said,
                                              const std::set<std::string>& storage);

// Of a node whose object is gone nothing is known: whose machine has the name nobody can say. A
// machine that may live is not off, whoever says so. It is isolated where all of the storage
// refuses it.
[[nodiscard]] policy::EvidenceSet evidence_there(const Sightings& sightings);

// Nothing of the node writes to the storage that it is about any more: its machine has no power, or
// the storage refuses it. That is more than a detach says.
[[nodiscard]] bool is_stopped_by(policy::EvidenceSet there);

// Beside a deletion: "unreachable, attested: off by alice, 2026-01-02T03:04:05Z, power supply
// burnt".
[[nodiscard]] std::string evidence_text(const Sightings& sightings);

// Why a pod of the node is not deleted, and what a person can do. `by`: who demands it.
[[nodiscard]] std::string missing_text(const NodeName& node, std::string_view by,
                                       policy::EvidenceSet demanded, const Sightings& sightings);

}  // namespace moonfence::fence
