#pragma once

// Reading is a live, consistent read of a node and of its Lease: the only thing a deletion may rest
// on.

#include <memory>
#include <optional>

#include "base/result.h"
#include "cluster/detection/kernel.h"
#include "cluster/nodes/ready_condition.h"
#include "fence/leases/kubelet_lease.h"
#include "fence/proof/attestation.h"
#include "fence/rules/adopted.h"
#include "fence/rules/our_taints.h"
#include "kube/objects/objects.h"

namespace moonfence::fence {

struct Reading {
  // Gone: the API server says that there is no Node of that name; what follows is then what was
  // known of it: its UID, and that nothing can be bound to it.
  cluster::Readiness readiness = cluster::Readiness::Missing;
  Uid uid;
  bool keeps_replacements_off = false;
  Carried own_taint = Carried::Nothing;       // moonfence.io/fenced
  Carried out_of_service = Carried::Nothing;  // node.kubernetes.io/out-of-service
  KubeletLease kubelet_lease = KubeletLease::Unread;
  // The Node of this name is another machine's, made then, and ours is gone: this reading is what
  // was known of ours, and goes for pods that were bound before.
  std::optional<WallTime> successor = std::nullopt;
  // Whether its machine answers, when the reading was complete. Of a node without an object, and
  // by the word of a health source, nothing is made of it.
  cluster::Kernel kernel = cluster::Kernel::NotObservable;
  Moment dead_at{};  // of a Lease that is alive: when it would be dead if it stands still
  // Since when the Lease has stood still at least; nullopt: it was not read.
  std::optional<Moment> lease_stands_since = std::nullopt;
  std::optional<WallTime> renewed = std::nullopt;  // the Lease, by the kubelet's clock
  std::optional<std::string> hold =
      std::nullopt;  // why nobody may touch the node (fence/rules/hold_annotations)
  AttestationCheck attestation = {};  // that its machine is off
  bool lost = false;                  // see HealthSource::Word
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

// The Node object of the machine that we mean does not exist any more.
[[nodiscard]] inline bool has_no_object(const Reading& reading) {
  return is_of_deleted_node(reading) || reading.successor;
}

// Its kubelet is dead by its Lease, and its machine may live.
[[nodiscard]] inline bool is_kept_by_kernel(const Reading& reading) {
  return reading.kubelet_lease == KubeletLease::Dead &&
         (reading.kernel == cluster::Kernel::Answers || reading.kernel == cluster::Kernel::Unsure);
}

// Whether the reading goes for a pod of that name's node: what was bound to a successor is not
// ours, nor what its kubelet has started.
[[nodiscard]] inline bool concerns(const Reading& reading, const kube::Pod& pod) {
  if (!reading.successor) {
    return true;
  }
  const auto started = pod.raw == nullptr ? std::nullopt : last_start(*pod.raw);
  return pod.bound && *pod.bound < *reading.successor &&
         !(started && *started > *reading.successor);
}

}  // namespace moonfence::fence
