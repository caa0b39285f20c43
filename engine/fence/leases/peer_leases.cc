#include "fence/leases/peer_leases.h"

#include <algorithm>
#include <utility>

#include "fence/leases/kubelet_lease.h"
#include "kube/wire/list_plan.h"

namespace moonfence::fence {

PeerLeases::Beat PeerLeases::after(const Beat& before, Beat beat) {
  const auto order = kube::compare_versions(before.version, beat.version);
  if (order && *order > 0) {
    return before;  // the picture of a server that lags is no renewal
  }
  beat.moved = before.renewed != beat.renewed ? std::optional(before.seen) : before.moved;
  return beat;
}

void PeerLeases::take(const kube::LeaseSigns& signs, Moment sent, WallTime server) {
  std::map<NodeName, Beat> last = std::exchange(beats_, {});
  sent_ = sent;
  server_ = server;
  for (const kube::LeaseSign& sign : signs.leases) {
    if (!sign.renewed) {
      continue;
    }
    const NodeName name(sign.name);
    const Duration duration = sign.duration > Duration::zero() ? sign.duration : kLeaseDuration;
    const Beat beat = {.renewed = *sign.renewed,
                       .version = sign.version,
                       .period = duration / 4 + duration / 100 + std::chrono::seconds(1),
                       .seen = sent};
    const auto before = last.find(name);
    beats_.emplace(name, before == last.end() ? beat : after(before->second, beat));
  }
}

Duration PeerLeases::silence_of(const kube::Lease* lease, Duration at_least) const {
  const auto after = lease == nullptr ? std::nullopt : revisions_.written(lease->version).after;
  if (!after || !lease->record.renewed) {
    return at_least;
  }
  return std::clamp(server_ - *lease->record.renewed, at_least, std::max(at_least, sent_ - *after));
}

Duration PeerLeases::silence_of(const Beat& beat) const {
  const kube::Revisions::Written written = revisions_.written(beat.version);
  const auto after = std::max(written.after, beat.moved);  // nullopt is the least
  const Duration by_stamp = server_ - beat.renewed;
  if (!written.by) {
    return after ? std::min(by_stamp, sent_ - *after) : by_stamp;
  }
  const Duration most = after ? sent_ - *after : Duration::max();
  return after ? std::clamp(by_stamp, std::min(sent_ - *written.by, most), most) : most;
}

bool PeerLeases::is_overdue(const NodeName& node) const {
  const auto found = beats_.find(node);
  if (found == beats_.end()) {
    return false;
  }
  const auto by = revisions_.written(found->second.version).by;
  return by && sent_ - *by > found->second.period;
}

bool PeerLeases::are_others_on_time(const NodeName& node,
                                    const std::function<bool(const NodeName&)>& counts) const {
  constexpr std::int64_t kTen = 10;
  std::int64_t all = 0;
  std::int64_t late = 0;
  for (const auto& [name, beat] : beats_) {
    if (name != node && counts(name)) {
      ++all;
      late += silence_of(beat) > beat.period + kube::LeaseRevisions::kEvery ? 1 : 0;
    }
  }
  return late * kTen <= all;
}

std::int64_t PeerLeases::silent_beside(Duration silence,
                                       const std::function<bool(const NodeName&)>& counts) const {
  return std::count_if(beats_.begin(), beats_.end(), [&](const auto& entry) {
    return silence_of(entry.second) >= silence / 2 && counts(entry.first);
  });
}

}  // namespace moonfence::fence
