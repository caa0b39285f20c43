#include "fence/pulse.h"

namespace moonfence::fence {

PulseWatch::Finding PulseWatch::feel(const Result<kube::Lease>& lease, cluster::Readiness readiness,
                                     const std::optional<WallTime>& changed, Moment sent,
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
  const bool could_renew = !outage_ended || sent - *outage_ended >= duration;
  if (readiness == cluster::Readiness::Unknown && could_renew &&
      (absent || (beat.renewed && changed && *beat.renewed <= *changed))) {
    return {.pulse = Pulse::Dead};
  }
  const Moment dead_at = since_ + duration;
  return {.pulse = sent >= dead_at ? Pulse::Dead : Pulse::Alive, .dead_at = dead_at};
}

}  // namespace moonfence::fence
