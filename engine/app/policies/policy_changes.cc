#include "app/policies/policy_changes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace moonfence::app {
namespace {

using policy::PolicyStatus;

// How many bindings of the policy name these namespaces.
std::ptrdiff_t bindings_like(const policy::ReloadReport& report, const PolicyStatus& policy) {
  return std::count_if(
      report.policies.begin(), report.policies.end(),
      [&policy](const PolicyStatus& each) { return each.is_same_binding(policy); });
}

std::ptrdiff_t bindings_of(const policy::ReloadReport& report, const std::string& name) {
  return std::count_if(report.policies.begin(), report.policies.end(),
                       [&name](const PolicyStatus& each) { return each.name == name; });
}

// Which of its namespaces no binding of the policy covers now, in words; "" all are.
std::string uncovered(const PolicyStatus& old, const policy::ReloadReport& now) {
  std::set<Namespace> covered;
  for (const PolicyStatus& policy : now.policies) {
    if (policy.name != old.name || policy.mode == policy::Mode::Off) {
      continue;
    }
    if (policy.namespaces == "*") {
      return {};
    }
    covered.merge(namespaces_of(policy));
  }
  const bool everywhere = old.namespaces == "*";
  std::vector<std::string> names;
  for (const Namespace& space : everywhere ? covered : namespaces_of(old)) {
    if (everywhere || !covered.contains(space)) {
      names.push_back(space.text());
    }
  }
  return everywhere ? (names.empty() ? "*" : "other than " + joined(names, ", "))
                    : joined(names, ", ");
}

// A ConfigMap that is gone, and one that is faulty, have news of their own; a policy that no
// binding names any more has, too, unless its text went with its last binding.
std::vector<PolicyChange> unbound(const policy::ReloadReport& before,
                                  const policy::ReloadReport& now) {
  std::vector<PolicyChange> changes;
  if (!now.missing.empty() || !now.faults.empty()) {
    return changes;
  }
  std::set<std::string> told;
  for (const PolicyStatus& old : before.policies) {
    const bool is_told =
        std::find(now.unbound.begin(), now.unbound.end(), old.name) != now.unbound.end();
    if (is_told || old.mode == policy::Mode::Off ||
        bindings_like(now, old) >= bindings_like(before, old)) {
      continue;
    }
    const std::string spaces = uncovered(old, now);
    if (spaces.empty() && bindings_of(now, old.name) >= bindings_of(before, old.name)) {
      continue;  // another one goes further
    }
    std::string text = spaces.empty() ? "a binding of policy " + old.name + " for namespaces " +
                                            old.namespaces + " is gone, and others cover them"
                                      : "policy " + old.name + " is not bound to namespaces " +
                                            spaces + " any more";
    if (told.insert(text).second) {
      changes.push_back(
          {.kind = PolicyChange::Kind::Unbound, .policy = old.name, .text = std::move(text)});
    }
  }
  return changes;
}

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
    } else if (old != before.policies.end() && status.held_back &&
               old->held_back !=
                   status.held_back) {  // it may go as far as before, and asks for more
      changes.push_back({.kind = PolicyChange::Kind::Mode,
                         .policy = status.name,
                         .text = "policy " + status.name + " for namespaces " + status.namespaces +
                                 " " + held_back_text(status, now)});
    }
  }
  for (PolicyChange& change : unbound(before, now)) {
    changes.push_back(std::move(change));
  }
  if (now.missing.empty() && !now.faults.empty() && now.faults != before.faults) {
    changes.push_back({.kind = PolicyChange::Kind::Faults,
                       .policy = {},
                       .text = "the bindings stay as they were: " + joined(now.faults, "; ")});
  }
  return changes;
}

}  // namespace moonfence::app
