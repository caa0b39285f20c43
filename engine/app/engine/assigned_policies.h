#pragma once

// What an engine is told about policies before it starts: one file (--policy), or the rules by
// which those of the ConfigMap are taken up. Pure.

#include <memory>

#include "app/engine/engine.h"
#include "policy/bundle/policy_set.h"
#include "policy/bundle/reload.h"

namespace moonfence::app {

// Of the file.
[[nodiscard]] policy::Mode mode_of_the_file(const Assignment& told);
// What --policy, --policy-namespace and --mode say, as a set of one binding.
[[nodiscard]] std::shared_ptr<const policy::PolicySet> set_of_the_file(const Assignment& told);
[[nodiscard]] policy::ReloadRules reload_rules(const Assignment& told, bool watches_machines);

}  // namespace moonfence::app
