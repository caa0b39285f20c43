#pragma once

// KubeletLease is what a node's Lease in kube-node-lease says of its kubelet. Ready=Unknown is the
// word of a controller, which may look at an old picture or be cut off itself; the Lease is the
// kubelet's own. It is dead
//   - when it has not changed for the duration that it names, by our own clock;
//   - on Ready=Unknown when it has not changed for half of it, unless it changed after the node was
//     called down, or we found it alive before: Kubernetes, which has missed it for its own grace
//     period, is the other witness. Of a node that was found down nobody knows what came first.
// One that is absent is one that has not changed: somebody deleted it a moment ago, or the kubelet
// may not write it and lives. A kubelet that says False by itself lives, whatever came first.
//
// Since when it has not changed tell two readings of ours, from the arrival of the first to the
// departure of the second, and before the first one the versions that the API server's store had
// reached when (kube/leases/revisions.h). The stamps in it are those of another machine: one whose
// clock was put back renews its Lease to an older stamp, which kube-controller-manager takes for
// silence. That a stamp is another one shows that the Lease moves; what it says counts for nothing,
// in either direction. Of an outage in which nobody could renew nothing is made. Nor of what a
// store shows that was restored from a backup: there every Lease is as old as the backup.

#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "cluster/nodes/ready_condition.h"
#include "kube/leases/lease.h"

namespace moonfence::fence {

enum class KubeletLease {
  Unread,  // the Lease could not be read: nobody knows
  Alive,
  Dead,
};

// The kubelet's own default, for a Lease that is absent or names none.
constexpr Duration kLeaseDuration = std::chrono::seconds(40);

// Remembers for one incident since when the Lease stands still.
class LeaseWatch {
 public:
  struct Finding {
    KubeletLease kubelet_lease = KubeletLease::Unread;
    Moment dead_at{};  // of Alive: when the same Lease, read again, would be dead
    // It has stood still at least since then; nullopt: it was not read.
    std::optional<Moment> since = std::nullopt;
  };
  // What else is known when a reading arrives.
  struct Known {
    std::optional<Moment> unwritten_since;  // by kube::Revisions
    // When we heard that the node fell; nullopt: it was found down, and nobody knows.
    std::optional<Moment> heard_down = std::nullopt;
    std::optional<Moment> outage_ended = std::nullopt;  // see SelfDoubt
  };
  // `lease`: as read beside the node, NotFound when there is none.
  [[nodiscard]] Finding feel(const Result<kube::Lease>& lease, cluster::Readiness readiness,
                             const Known& known, Moment sent, Moment arrived);

 private:
  // The same stamp in another Lease is another beat: somebody deleted it, and the kubelet made one.
  struct Beat {
    Uid lease;
    std::optional<WallTime> renewed;
    friend bool operator==(const Beat&, const Beat&) = default;
  };
  std::optional<Beat> last_;
  ResourceVersion version_;          // as it was read last
  std::optional<Moment> went_back_;  // when it was read in an older one: the store was restored
  Moment since_{};                   // when the reading arrived that showed it first
  bool found_alive_ = false;
};

}  // namespace moonfence::fence
