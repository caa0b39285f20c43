#include "sim/truth/heard_kernels.h"

#include <algorithm>

namespace moonfence::sim {

void HeardKernels::runs_since(const std::string& replica, Moment now) {
  const auto [place, is_new] = since_.try_emplace(replica, now);
  if (!is_new && place->second) {
    place->second = now;
  }
}

void HeardKernels::set_partitioned(const std::string& replica, bool partitioned, Moment now) {
  since_[replica] = partitioned ? std::nullopt : std::optional(now);
}

void HeardKernels::set_link_cut(const std::string& replica, const std::string& machine, bool cut,
                                Moment now) {
  links_[{replica, machine}] = cut ? std::nullopt : std::optional(now);
}

std::optional<Duration> HeardKernels::heard_for(const Machines& machines,
                                                const std::string& machine,
                                                const std::string& replica, Moment now) const {
  const auto found = machines.by_name.find(machine);
  const auto since = since_.find(replica);
  if (found == machines.by_name.end() || !found->second.answers() || since == since_.end() ||
      !since->second) {
    return std::nullopt;
  }
  const auto link = links_.find({replica, machine});
  if (link != links_.end() && !link->second) {
    return std::nullopt;
  }
  const Moment linked = link == links_.end() ? *since->second : *link->second;
  return now - std::max({found->second.answers_since, *since->second, linked});
}

}  // namespace moonfence::sim
