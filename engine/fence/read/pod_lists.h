#pragma once

// Which lists of pods one pass makes so that every pod that a binding selects is in one of them. A
// list costs the server a request each and, before Kubernetes 1.31, a scan as large as the
// namespace, or as the cluster for all namespaces (docs/decisions/0004).

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

struct PodList {
  Namespace space;             // empty: all namespaces
  std::string label_selector;  // what all bindings of this list select by; empty: anything

  friend bool operator==(const PodList&, const PodList&) = default;
};

// Up to so many namespaces are listed one by one.
constexpr std::size_t kNamespaceListsMax = 4;

// Ordered by namespace. Guards that could not be loaded hold pods but look for none; `fell` false
// leaves out those that act only on nodes they have seen falling; `source`: see hold_downs();
// `all`: something may be done that ends all pods of the node, whoever selects them.
[[nodiscard]] std::vector<PodList> plan_lists(const policy::PolicySet& set, bool fell,
                                              std::string_view source = {}, bool all = false);

}  // namespace moonfence::fence
