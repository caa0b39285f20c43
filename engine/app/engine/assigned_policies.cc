#include "app/engine/assigned_policies.h"

#include <utility>

#include "fence/rules/our_taints.h"
#include "policy/bundle/builtin.h"

namespace moonfence::app {

policy::Mode mode_of_the_file(const Assignment& told) {
  return told.mode.value_or(policy::Mode::Observe);
}

std::shared_ptr<const policy::PolicySet> set_of_the_file(const Assignment& told) {
  const policy::Policy& policy = *told.policy;
  const policy::Mode mode = mode_of_the_file(told);
  policy::PolicySet set;
  set.digest = policy.digest();
  if (mode != policy::Mode::Off) {
    set.bindings.push_back({.name = policy.name(),
                            .policy = told.policy,
                            .scope = policy::NamespaceScope::of({Namespace(told.policy_namespace)}),
                            .mode = mode,
                            .allow = {},
                            .hold_down = told.hold_down,
                            .digest = policy.digest(),
                            .error = {}});
  }
  return std::make_shared<const policy::PolicySet>(std::move(set));
}

policy::ReloadRules reload_rules(const Assignment& told, bool watches_machines) {
  policy::ReloadRules rules;
  rules.ceiling = told.mode.value_or(policy::Mode::Enforce);
  rules.least_after = told.settings.least_after;
  rules.validation.needs = {"node",       "node_fetch", "volumes", "placement",
                            "root_owner", "siblings",   "fetch",   "source"};
  for (const policy::BuiltinPolicy& builtin : policy::builtin_policies()) {
    rules.builtins.emplace(builtin.name, builtin.source);
  }
  if (!watches_machines) {
    rules.lost_is_inert =
        "does nothing: machines are not watched; write detection: on into the engine's "
        "configuration and restart it";
  } else if (told.settings.quarantine == fence::Quarantine::Off) {
    rules.lost_is_inert =
        "waits for the taint of Kubernetes: write quarantine: missing or always into the "
        "engine's configuration and restart it";
  }
  if (told.fencers.empty()) {
    rules.off_is_inert =
        "deletes nothing: no fencer can say that a machine is off; write fencers: into the "
        "engine's configuration and restart it";
  }
  return rules;
}

}  // namespace moonfence::app
