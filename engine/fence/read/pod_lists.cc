#include "fence/read/pod_lists.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "fence/rules/eviction.h"
#include "fence/rules/triggers.h"

namespace moonfence::fence {
namespace {

using policy::Binding;

// Narrows the list to what all of these select by, if it is one thing.
PodList list_of(const std::vector<const Binding*>& bindings, Namespace space) {
  const std::string& first = bindings.front()->policy->label_selector();
  const bool same = std::all_of(bindings.begin(), bindings.end(), [&first](const Binding* binding) {
    return binding->policy->label_selector() == first;
  });
  return {.space = std::move(space), .label_selector = same ? first : std::string()};
}

}  // namespace

std::vector<PodList> plan_lists(const policy::PolicySet& set, bool fell, std::string_view source,
                                bool all) {
  std::vector<const Binding*> bindings;
  std::set<Namespace> spaces;
  bool everywhere = false;
  for (const Binding& binding : set.bindings) {
    if (binding.policy == nullptr || (!fell && !binding.policy->trigger().sweep) ||
        signal_of(binding) != source) {
      continue;
    }
    bindings.push_back(&binding);
    everywhere = everywhere || binding.scope.is_everywhere();
    spaces.insert(binding.scope.names().begin(), binding.scope.names().end());
  }
  if (bindings.empty()) {
    return {};
  }
  if (all || may_detach(set) || may_taint(set)) {
    // A pod of any namespace may share a volume, or be evicted by a taint.
    return {PodList{}};
  }
  if (everywhere || spaces.size() > kNamespaceListsMax) {
    return {list_of(bindings, Namespace())};
  }
  std::vector<PodList> lists;
  for (const Namespace& space : spaces) {
    std::vector<const Binding*> here;
    std::copy_if(bindings.begin(), bindings.end(), std::back_inserter(here),
                 [&space](const Binding* binding) { return binding->scope.covers(space); });
    lists.push_back(list_of(here, space));
  }
  return lists;
}

}  // namespace moonfence::fence
