#include "fence/roll.h"

#include <algorithm>
#include <utility>

#include "fence/pulse.h"
#include "kube/list_plan.h"

namespace moonfence::fence {

Roll::Beat Roll::after(const Beat& before, Beat beat) {
  const auto order = kube::compare_versions(before.version, beat.version);
  if (order && *order > 0) {
    return before;  // the picture of a server that lags is no renewal
  }
  beat.moved = before.renewed != beat.renewed ? std::optional(before.seen) : before.moved;
  return beat;
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
    const Beat beat = {.renewed = *sign.renewed, .version = sign.version, .seen = sent};
    const auto before = last.find(name);
    beats_.emplace(name, before == last.end() ? beat : after(before->second, beat));
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
