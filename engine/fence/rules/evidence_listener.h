#pragma once

// Whoever wants to hear of each reading of an incident's node, to tell others what is proven of it.
// It hears, and decides nothing for the engine.

#include <memory>

#include "base/names.h"
#include "fence/rules/guard.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

struct ReadNode {
  kube::Node node;  // as it was read a moment ago, with its JSON
  IncidentId incident;
  // Of that incident: what is known of the node by now (sightings_of).
  std::shared_ptr<const Authority> authority;
};

// It is dead by the newest reading, and by the signs that its incident goes by.
[[nodiscard]] inline bool is_read_dead(const ReadNode& read) {
  const Reading& reading = read.authority->reading;
  return read.node.uid == read.authority->node_uid && reading.uid == read.authority->node_uid &&
         cluster::is_down(reading.readiness) && reading.kubelet_lease == KubeletLease::Dead;
}

class EvidenceListener {
 public:
  virtual ~EvidenceListener() = default;
  virtual void looked_at(ReadNode read) = 0;
};

}  // namespace moonfence::fence
