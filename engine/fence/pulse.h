#pragma once

// Pulse is what a node's Lease in kube-node-lease says of its kubelet. Ready=Unknown is the word of
// a controller, which may look at an old picture or be cut off itself; the Lease is the kubelet's
// own. It is dead
//   - on Ready=Unknown: when there is none, or it was not renewed after Ready had become Unknown,
//     unless the API server was out of reach within the duration that the Lease names: then a
//     living kubelet could not renew it either;
//   - otherwise, and in every other state of Ready: when it has not changed for the duration that
//     it names. A kubelet that says False by itself lives, whatever came first.
// That duration is counted on our own clock and between two readings of ours, from the arrival of
// the first to the departure of the second. The stamps are those of two other machines (the node
// and kube-controller-manager) and are only held against each other.

#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "cluster/readiness.h"
#include "kube/lease.h"

namespace moonfence::fence {

enum class Pulse {
  Unread,  // the Lease could not be read: nobody knows
  Alive,
  Dead,
};

// The kubelet's own default, for a Lease that is absent or names none.
constexpr Duration kLeaseDuration = std::chrono::seconds(40);

// Remembers for one incident since when the Lease stands still.
class PulseWatch {
 public:
  struct Finding {
    Pulse pulse = Pulse::Unread;
    Moment dead_at{};  // of Alive: when the same Lease, read again, would be dead
  };
  // `lease`: as read beside the node, NotFound when there is none. `changed`: lastTransitionTime of
  // Ready. `outage_ended`: see SelfDoubt.
  [[nodiscard]] Finding feel(const Result<kube::Lease>& lease, cluster::Readiness readiness,
                             const std::optional<WallTime>& changed, Moment sent, Moment arrived,
                             std::optional<Moment> outage_ended = std::nullopt);

 private:
  // The same stamp in another Lease is another beat: somebody deleted it, and the kubelet made one.
  struct Beat {
    Uid lease;
    std::optional<WallTime> renewed;
    friend bool operator==(const Beat&, const Beat&) = default;
  };
  std::optional<Beat> last_;
  Moment since_{};  // when the reading arrived that showed it first
};

}  // namespace moonfence::fence
