#include "cluster/detection/machine_history.h"

#include <algorithm>

namespace moonfence::cluster {

void MachineHistory::note(const NodeName& node, Kernel kernel, std::optional<Duration> quiet,
                          WallTime now) {
  const auto found = machines_.find(node);
  if (found == machines_.end()) {
    const bool is_first_look = kernel == Kernel::Unsure && !quiet;
    if (kernel == Kernel::Answers || is_first_look) {
      return;
    }
  } else if (const Change& last = found->second.changes.back(); last.kernel == kernel) {
    if (kernel == Kernel::Answers && now - last.at > kRemembered) {
      machines_.erase(found);
    }
    return;
  }
  Machine& machine = machines_.try_emplace(node, Machine{.node = node}).first->second;
  if (machine.changes.size() == kMostChanges) {
    machine.changes.erase(machine.changes.begin());
  }
  machine.changes.push_back({.at = now, .kernel = kernel});
  if (kernel == Kernel::Silent && quiet) {
    machine.last_sign = now - *quiet;
  }
}

std::pair<std::vector<MachineHistory::Machine>, std::size_t> MachineHistory::machines(
    std::size_t most) const {
  std::vector<Machine> found;
  for (const Kernel kernel :
       {Kernel::Silent, Kernel::Unsure, Kernel::Answers, Kernel::NotObservable}) {
    for (const auto& [name, machine] : machines_) {
      if (machine.changes.back().kernel == kernel && found.size() < most) {
        found.push_back(machine);
      }
    }
  }
  return {found, machines_.size() - found.size()};
}

}  // namespace moonfence::cluster
