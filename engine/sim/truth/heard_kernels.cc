#include "sim/truth/heard_kernels.h"

#include <algorithm>

namespace moonfence::sim {

void HeardKernels::set_running(const std::string& replica, bool runs, Moment now) {
  replicas_[replica].runs = runs;
  replicas_[replica].changed = now;
}

void HeardKernels::set_partitioned(const std::string& replica, bool partitioned, Moment now) {
  replicas_[replica].partitioned = partitioned;
  replicas_[replica].changed = now;
}

void HeardKernels::set_link_cut(const std::string& replica, const std::string& machine, bool cut,
                                Moment now) {
  links_[{replica, machine}] = cut ? std::nullopt : std::optional(now);
}

std::optional<Moment> HeardKernels::hears_since(const std::string& replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? std::nullopt : found->second.hears_since();
}

std::optional<Duration> HeardKernels::heard_for(const Machines& machines,
                                                const std::string& machine,
                                                const std::string& replica, Moment now) const {
  const auto found = machines.by_name.find(machine);
  const auto since = hears_since(replica);
  if (found == machines.by_name.end() || !found->second.answers() || !since) {
    return std::nullopt;
  }
  const auto link = links_.find({replica, machine});
  if (link != links_.end() && !link->second) {
    return std::nullopt;
  }
  const Moment linked = link == links_.end() ? *since : *link->second;
  return now - std::max({found->second.answers_since, *since, linked});
}

std::optional<Duration> HeardKernels::heard_elsewhere_for(const Machines& machines,
                                                          const std::string& machine,
                                                          const std::string& replica,
                                                          Moment now) const {
  const auto asks_since = hears_since(replica);
  std::optional<Duration> longest;
  for (const auto& [other, state] : replicas_) {
    const auto heard = heard_for(machines, machine, other, now);
    if (other != replica && heard && asks_since) {
      longest = std::max(longest.value_or(Duration::zero()), std::min(*heard, now - *asks_since));
    }
  }
  return longest;
}

}  // namespace moonfence::sim
