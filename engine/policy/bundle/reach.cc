#include "policy/bundle/reach.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace moonfence::policy {
namespace {

NamespaceScope common(const NamespaceScope& a, const NamespaceScope& b) {
  if (a.is_everywhere()) {
    return b;
  }
  if (b.is_everywhere()) {
    return a;
  }
  std::set<Namespace> names;
  std::set_intersection(a.names().begin(), a.names().end(), b.names().begin(), b.names().end(),
                        std::inserter(names, names.end()));
  return NamespaceScope::of(std::move(names));
}

NamespaceScope either(const NamespaceScope& a, const NamespaceScope& b) {
  if (a.is_everywhere() || b.is_everywhere()) {
    return NamespaceScope::everywhere();
  }
  std::set<Namespace> names = a.names();
  names.insert(b.names().begin(), b.names().end());
  return NamespaceScope::of(std::move(names));
}

Allowances common(const Allowances& a, const Allowances& b) {
  return {.out_of_service = a.out_of_service && b.out_of_service,
          .bare_pods = a.bare_pods && b.bare_pods,
          .finished_pods = a.finished_pods && b.finished_pods,
          .act_on = a.act_on == b.act_on ? a.act_on : ActOn::Down,
          .after = a.act_on == b.act_on ? std::max(a.after, b.after) : Duration::zero()};
}

}  // namespace

Reach narrower(const Reach& a, const Reach& b) {
  // Who goes by the engine's own word and who by Kubernetes' have nothing in common.
  const bool is_alike = a.allow.act_on == b.allow.act_on;
  return {.scope = is_alike ? common(a.scope, b.scope) : NamespaceScope::of({}),
          .mode = lowest(a.mode, b.mode),
          .allow = common(a.allow, b.allow),
          .hold_down = std::max(a.hold_down, b.hold_down)};
}

Reach more_protective(const Reach& a, const Reach& b) {
  return {.scope = either(a.scope, b.scope),
          .mode = std::max(a.mode, b.mode),
          .allow = common(a.allow, b.allow),
          .hold_down = std::max(a.hold_down, b.hold_down)};
}

}  // namespace moonfence::policy
