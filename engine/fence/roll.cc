#include "fence/roll.h"

#include <algorithm>
#include <utility>

#include "fence/pulse.h"
#include "kube/list_plan.h"

namespace moonfence::fence {

// An older one is the picture of a server that lags, and no renewal.
bool Roll::has_moved(const Beat& before, const Beat& beat) {
  const auto order = kube::compare_versions(before.version, beat.version);
  return before.renewed != beat.renewed && (!order || *order < 0);
}

void Roll::take(const kube::LeaseSigns& signs, Moment sent, WallTime server) {
  std::map<NodeName, Beat> last = std::exchange(beats_, {});
  sent_ = sent;
  server_ = server;
  for (const kube::LeaseSign& sign : signs.leases) {
    if (!sign.renewed) {
      continue;
    }
    const NodeName name(sign.name);
    Beat beat = {.renewed = *sign.renewed, .version = sign.version, .seen = sent};
    if (const auto before = last.find(name); before != last.end()) {
      beat.moved = has_moved(before->second, beat) ? std::optional(before->second.seen)
                                                   : before->second.moved;
    }
    beats_.emplace(name, beat);
  }
}

Duration Roll::age_of(std::optional<WallTime> renewed, std::optional<WallTime> changed) const {
  const Duration since_unknown = changed ? server_ - *changed : Duration::zero();
  return std::max(renewed ? server_ - *renewed : kLeaseDuration, since_unknown);
}

std::int64_t Roll::silent_beside(Duration age,
                                 const std::function<bool(const NodeName&)>& counts) const {
  return std::count_if(beats_.begin(), beats_.end(), [&](const auto& entry) {
    const Beat& beat = entry.second;
    const Duration by_stamp = server_ - beat.renewed;
    const Duration silent = beat.moved ? std::min(by_stamp, sent_ - *beat.moved) : by_stamp;
    return silent * 2 >= age && counts(entry.first);
  });
}

}  // namespace moonfence::fence
