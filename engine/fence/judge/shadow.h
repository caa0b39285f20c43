#pragma once

// What observes is the shadow of what enforces: where bindings of both modes have a word on one pod
// and come to something else, that difference is what an operator wants to see before the observing
// policy is let loose.

#include <optional>
#include <string>
#include <string_view>

#include "fence/judge/resolution.h"

namespace moonfence::fence {

struct ShadowDifference {
  std::string_view observed;  // "delete_pod"
  std::string_view enforced;  // "skip"
  std::string text;           // the observing policy's reason, and the enforcing one's
};

// nullopt: they agree, or nobody speaks on one of the sides. Waiting for another time and waiting
// is the same: neither acts, and both are asked again.
[[nodiscard]] std::optional<ShadowDifference> shadow_difference(const Decision& observed,
                                                                const Decision& enforced);

}  // namespace moonfence::fence
