#include "fence/pulse.h"

#include <algorithm>

namespace moonfence::fence {

PulseWatch::Finding PulseWatch::feel(const Result<kube::Lease>& lease, cluster::Readiness readiness,
                                     std::optional<Moment> unwritten_since, Moment sent,
                                     Moment arrived, std::optional<Moment> outage_ended) {
  const bool absent = !lease && lease.error().kind == Error::Kind::NotFound;
  if (!lease && !absent) {
    return {};
  }
  const Beat beat = absent ? Beat{} : Beat{.lease = lease->uid, .renewed = lease->record.renewed};
  if (last_ != beat) {
    last_ = beat;
    since_ = arrived;
  }
  const bool names_one = !absent && lease->record.duration > Duration::zero();
  const Duration duration = names_one ? lease->record.duration : kLeaseDuration;
  Moment since = since_;
  if (!absent && unwritten_since) {
    // What nobody could write in an outage, nobody failed to write.
    since = std::min(since_, std::max(*unwritten_since, outage_ended.value_or(*unwritten_since)));
  }
  const bool unknown = readiness == cluster::Readiness::Unknown;
  // Two witnesses, of which one has seen half of it: Kubernetes, and we. Once we have found it
  // alive, the first is not believed any more.
  const Moment dead_at = since + (unknown && !found_alive_ ? duration / 2 : duration);
  if (sent >= dead_at) {
    return {.pulse = Pulse::Dead, .dead_at = dead_at, .since = since};
  }
  found_alive_ = true;
  return {.pulse = Pulse::Alive, .dead_at = since + duration};
}

}  // namespace moonfence::fence
