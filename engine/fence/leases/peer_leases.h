#pragma once

// PeerLeases says how many other nodes are as silent as one that is called dead: the storm that the
// watch has not told of yet. In a storm all kubelets fall silent at once and Kubernetes calls them
// Unknown one after another; the Leases of those whose turn has not come are as old already.
//
// Another node counts as silent when its Lease has stood still for at least half as long as that of
// the node in question. That needs no figure that fits one cluster and not another: a kubelet
// renews four times in the time after which it is called dead.
//
// For how long a Lease has stood still tell the versions that the API server's store had reached
// when (kube/leases/revisions.h), by our own clock: at least since the store was first seen with
// it, and at most since it was last seen without it. A stamp, which is the node's own, says no more
// than where between these two. Where nobody knows the second, a node has been silent for ever
// until it is seen to move; where versions tell nothing at all, stamps and what was seen to move
// have to do. A pure machine.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/names.h"
#include "base/time.h"
#include "kube/leases/lease.h"
#include "kube/leases/lease_list.h"
#include "kube/leases/revisions.h"

namespace moonfence::fence {

class PeerLeases {
 public:
  // `revisions` must outlive it.
  explicit PeerLeases(const kube::Revisions& revisions) : revisions_(revisions) {}

  // A whole list: when it was asked for, and what the API server's clock showed then.
  void take(const kube::LeaseSigns& signs, Moment sent, WallTime server);

  // The store may have gone back in time: by its versions nothing is newer or older any more.
  void forget() { beats_.clear(); }

  // For how long, at the moment of the list, this Lease has stood still, which it was seen to do
  // for `at_least`; an absent one for no longer.
  [[nodiscard]] Duration silence_of(const kube::Lease* lease, Duration at_least) const;
  // Of the nodes that `counts` names, how many are silent beside one that is so for so long.
  [[nodiscard]] std::int64_t silent_beside(
      Duration silence, const std::function<bool(const NodeName&)>& counts) const;
  // By the list it is proven to have stood still for longer than its kubelet leaves between two
  // renewals: a quarter of the duration that it names, give or take 4 %, and a second.
  [[nodiscard]] bool is_overdue(const NodeName& node) const;
  // Nine in ten of the others that `counts` names are renewed in time, as far as is known.
  [[nodiscard]] bool are_others_on_time(const NodeName& node,
                                        const std::function<bool(const NodeName&)>& counts) const;

 private:
  struct Beat {
    WallTime renewed;
    ResourceVersion version = {};
    Duration period{};                           // between two renewals, at most
    Moment seen{};                               // asked for: the newest list that shows it
    std::optional<Moment> moved = std::nullopt;  // asked for: the newest list that shows another
  };
  [[nodiscard]] static Beat after(const Beat& before, Beat beat);
  [[nodiscard]] Duration silence_of(const Beat& beat) const;

  const kube::Revisions& revisions_;
  std::map<NodeName, Beat> beats_;
  Moment sent_{};
  WallTime server_{};
};

}  // namespace moonfence::fence
