#pragma once

// What a reload changed about how far the policies may go. Activations and rejections of their
// texts are policy::ReloadNews; a change of mode alone is none of those, and matters most. Nor is a
// binding that is gone, of a policy that others still name.

#include <string>
#include <vector>

#include "policy/bundle/reload_report.h"

namespace moonfence::app {

struct PolicyChange {
  enum class Kind { Mode, Unbound, Faults };
  Kind kind = Kind::Mode;
  std::string policy;  // empty: the ceiling over all of them, or the configuration
  std::string text;
};

// From the report before to this one; the first report has none before it.
[[nodiscard]] std::vector<PolicyChange> policy_changes(const policy::ReloadReport& before,
                                                       const policy::ReloadReport& now);

}  // namespace moonfence::app
