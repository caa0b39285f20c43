#include "fence/leases/kubelet_lease.h"

#include <algorithm>
#include <compare>

#include "kube/wire/list_plan.h"

namespace moonfence::fence {

LeaseWatch::Finding LeaseWatch::feel(const Result<kube::Lease>& lease, cluster::Readiness readiness,
                                     const Known& known, Moment sent, Moment arrived) {
  const bool absent = !lease && lease.error().kind == Error::Kind::NotFound;
  if (!lease && !absent) {
    return {};
  }
  const Beat beat = absent ? Beat{} : Beat{.lease = lease->uid, .renewed = lease->record.renewed};
  if (last_ != beat) {
    if (lease && kube::compare_versions(lease->version, version_) == std::strong_ordering::less) {
      went_back_ = arrived;
    }
    last_ = beat;
    since_ = arrived;
  }
  version_ = lease ? lease->version : version_;
  const bool names_one = !absent && lease->record.duration > Duration::zero();
  const Duration duration = names_one ? lease->record.duration : kLeaseDuration;
  const Moment unwritten = absent ? since_ : known.unwritten_since.value_or(since_);
  // What nobody could write in an outage, nobody failed to write.
  const Moment since = std::min(since_, std::max({unwritten, known.outage_ended.value_or(unwritten),
                                                  went_back_.value_or(unwritten)}));
  // Two witnesses, of which one has seen half of it: Kubernetes, and we. Once the Lease moves after
  // its word, or we have found it alive, the first is not believed any more.
  const bool is_believed = readiness == cluster::Readiness::Unknown && !found_alive_ &&
                           (!known.heard_down || std::min(since_, unwritten) <= *known.heard_down);
  const Moment dead_at = since + (is_believed ? duration / 2 : duration);
  if (sent >= dead_at) {
    return {.kubelet_lease = KubeletLease::Dead, .dead_at = dead_at, .since = since};
  }
  found_alive_ = true;
  return {.kubelet_lease = KubeletLease::Alive, .dead_at = since + duration, .since = since};
}

}  // namespace moonfence::fence
