#pragma once

// What an API server demands of an object's metadata, and what it lets nobody change.

#include <optional>
#include <string>

#include "sim/store/object_store.h"

namespace moonfence::sim {

[[nodiscard]] std::optional<ApiFault> check_name(const ResourceKind& kind, const std::string& name);
// Whoever read an object may demand, by leaving its resourceVersion and uid in place, that it is
// still that one.
[[nodiscard]] std::optional<ApiFault> check_identity(const ResourceKind& kind, const Key& key,
                                                     const Json& before, const Json& after);
// What writers may not change is put back as it was.
void keep_metadata(const Json& before, Json& after);

}  // namespace moonfence::sim
