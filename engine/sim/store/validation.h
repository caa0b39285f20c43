#pragma once

// The little of Kubernetes' defaulting and validation that a fencer can meet.

#include <optional>
#include <string>

#include "sim/store/object_store.h"

namespace moonfence::sim {

// A new object as its registry stores it: defaults, and the status that nobody but its controllers
// may set.
void complete_new(const ResourceKind& kind, Json& object);
// What an update may not change.
[[nodiscard]] std::optional<ApiFault> check_unchanged(const ResourceKind& kind,
                                                      const std::string& name, const Json& before,
                                                      const Json& after);
// A patch may name the UID of the object that it is meant for, and no other.
[[nodiscard]] std::optional<ApiFault> check_same_uid(const ResourceKind& kind,
                                                     const std::string& name,
                                                     const std::string& uid, const Json& after);

}  // namespace moonfence::sim
