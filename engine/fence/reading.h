#pragma once

// Reading is a live, consistent read of a node and of its Lease: the only thing a deletion may rest
// on.

#include <memory>
#include <optional>

#include "base/result.h"
#include "cluster/readiness.h"
#include "fence/pulse.h"
#include "fence/quarantine.h"
#include "kube/objects.h"

namespace moonfence::fence {

struct Reading {
  // Gone: the API server says that there is no Node of that name; what follows is then what was
  // known of it: its UID, and that nothing can be bound to it.
  cluster::Readiness readiness = cluster::Readiness::Missing;
  Uid uid;
  bool keeps_replacements_off = false;
  Carried own_taint = Carried::Nothing;       // moonfence.io/fenced
  Carried out_of_service = Carried::Nothing;  // node.kubernetes.io/out-of-service
  Pulse pulse = Pulse::Unread;
  Moment dead_at{};  // of a Lease that is alive: when it would be dead if it stands still
  std::optional<WallTime> renewed = std::nullopt;  // the Lease, by the kubelet's clock
  std::optional<std::string> hold = std::nullopt;  // why nobody may touch the node (fence/holds)
  // When the read was sent: what the server answered was true at this moment or later, never
  // earlier.
  Moment sent{};
  // What it said of the node's volumes; null when that could not be understood, or releases are
  // off.
  std::shared_ptr<const kube::NodeStorage> storage = nullptr;
};

[[nodiscard]] inline bool is_of_deleted_node(const Reading& reading) {
  return reading.readiness == cluster::Readiness::Gone;
}

// How long a reading may carry a deletion (design.md §3.6).
constexpr Duration kReadingLifetime = std::chrono::seconds(1);

}  // namespace moonfence::fence
