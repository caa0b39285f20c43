#pragma once

// Roll says how many other nodes are as silent as one that is called dead: the storm that the watch
// has not told of yet. In a storm all kubelets fall silent at once and Kubernetes calls them
// Unknown one after another; the Leases of those whose turn has not come are as old already.
//
// Another node counts as silent when its Lease is at least half as old as that of the node in
// question. That needs no figure that fits one cluster and not another: a kubelet renews four times
// in the time after which it is called dead. Ages are the API server's time minus the stamp, which
// is the node's; so that one odd clock has a bounded effect
//   - the node in question is as old as its Ready=Unknown at least: a clock that is ahead makes it
//     look young, and all others silent, for a few renewals and not for ever;
//   - another node has renewed since the newest list that shows another stamp of it: one whose
//     clock is behind looks silent until it was seen to move. One that is ahead hides itself only.
// A pure machine.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/names.h"
#include "base/time.h"
#include "kube/lease_list.h"

namespace moonfence::fence {

class Roll {
 public:
  // A whole list: when it was asked for, and what the API server's clock showed then.
  void take(const kube::LeaseSigns& signs, Moment sent, WallTime server);

  // The store may have gone back in time: by its versions nothing is newer or older any more.
  void forget() { beats_.clear(); }

  // The age, at the moment of the list, of a Lease that was renewed then, on a node that is Unknown
  // since `changed`; of an absent Lease that of one that has just run out.
  [[nodiscard]] Duration age_of(std::optional<WallTime> renewed,
                                std::optional<WallTime> changed) const;
  // Of the nodes that `counts` names, how many are silent beside one whose Lease is so old.
  [[nodiscard]] std::int64_t silent_beside(
      Duration age, const std::function<bool(const NodeName&)>& counts) const;

 private:
  struct Beat {
    WallTime renewed;
    ResourceVersion version = {};
    Moment seen{};                               // asked for: the newest list that shows it
    std::optional<Moment> moved = std::nullopt;  // asked for: the newest list that shows another
  };
  [[nodiscard]] static Beat after(const Beat& before, Beat beat);
  std::map<NodeName, Beat> beats_;
  Moment sent_{};
  WallTime server_{};
};

}  // namespace moonfence::fence
