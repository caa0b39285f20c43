#pragma once

// What a DELETE does: removes, or only marks because a kubelet is given time or a finalizer waits
// (k8s.io/apiserver pkg/registry: rest/delete.go and generic/registry/store.go).

#include <optional>
#include <string>

#include "sim/store/object_store.h"

namespace moonfence::sim {

struct Deletion {
  // The object with its deletionTimestamp, to be written first. A forced deletion of a pod writes
  // it too, so that watchers see MODIFIED and then DELETED.
  std::optional<Json> marked;
  bool removes = false;
};

[[nodiscard]] std::optional<ApiFault> check_preconditions(const ResourceKind& kind,
                                                          const std::string& name,
                                                          const Json& object,
                                                          const DeleteOptions& options);
[[nodiscard]] Deletion plan_deletion(const ResourceKind& kind, const Json& object,
                                     const DeleteOptions& options, WallTime now);
// The update takes the last finalizer of an object whose grace is over.
[[nodiscard]] bool is_gone_with(const Json& before, const Json& after);

}  // namespace moonfence::sim
