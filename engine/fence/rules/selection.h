#pragma once

// The pods that no policy is asked about, whatever it would say: deleting them does nothing, is
// undone at once on the same node, or loses work that nothing would start again. The last kind a
// binding may allow.

#include <optional>

#include "audit/reason.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

[[nodiscard]] std::optional<audit::Reason> left_alone(const kube::Pod& pod,
                                                      const policy::Allowances& allow = {});

}  // namespace moonfence::fence
