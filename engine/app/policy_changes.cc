#include "app/policy_changes.h"

#include <algorithm>

#include "base/text.h"

namespace moonfence::app {
namespace {

using policy::PolicyStatus;

std::string turn(policy::Mode before, policy::Mode now) {
  return std::string(policy::to_string(now)) + ", was " + std::string(policy::to_string(before));
}

}  // namespace

std::vector<PolicyChange> policy_changes(const policy::ReloadReport& before,
                                         const policy::ReloadReport& now) {
  std::vector<PolicyChange> changes;
  if (before.mode != now.mode) {
    changes.push_back({.kind = PolicyChange::Kind::Mode,
                       .policy = {},
                       .text = "the ceiling of all policies is " + turn(before.mode, now.mode) +
                               " (set by " + now.mode_set_by + ")"});
  }
  for (const PolicyStatus& status : now.policies) {
    const auto old =
        std::find_if(before.policies.begin(), before.policies.end(),
                     [&status](const PolicyStatus& each) { return each.is_same_binding(status); });
    if (old != before.policies.end() && old->mode != status.mode) {
      changes.push_back({.kind = PolicyChange::Kind::Mode,
                         .policy = status.name,
                         .text = "policy " + status.name + " for namespaces " + status.namespaces +
                                 " is " + turn(old->mode, status.mode)});
    }
  }
  if (now.missing.empty() && !now.faults.empty() && now.faults != before.faults) {
    changes.push_back({.kind = PolicyChange::Kind::Faults,
                       .policy = {},
                       .text = "the bindings stay as they were: " + joined(now.faults, "; ")});
  }
  return changes;
}

}  // namespace moonfence::app
