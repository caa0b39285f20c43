#pragma once

// Reach is where a binding may act, how far, and beyond which ordinary bounds. What runs in place
// of a rejected edit must not gain any by that edit.

#include "policy/bundle/policy_set.h"
#include "policy/values/mode.h"

namespace moonfence::policy {

struct Reach {
  NamespaceScope scope = NamespaceScope::of({});
  Mode mode = Mode::Observe;
  Allowances allow;
  Duration hold_down = kHoldDown;  // see Binding

  // It covers no namespace.
  [[nodiscard]] bool is_nowhere() const { return !scope.is_everywhere() && scope.names().empty(); }

  friend bool operator==(const Reach&, const Reach&) = default;
};

// What both permit.
[[nodiscard]] Reach narrower(const Reach& a, const Reach& b);
// Of what only forbids or holds: wherever and as far as either does. Nothing more is allowed.
[[nodiscard]] Reach more_protective(const Reach& a, const Reach& b);

}  // namespace moonfence::policy
