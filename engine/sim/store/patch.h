#pragma once

// PATCH in its three tongues: JSON merge patch (RFC 7396), JSON patch (RFC 6902), and Kubernetes'
// strategic merge patch for the lists that kubelets and controllers patch.

#include <optional>
#include <string_view>

#include "sim/store/object.h"

namespace moonfence::sim {

enum class PatchType { MergePatch, JsonPatch, StrategicMerge };

// Nothing for a content type that is none of them.
[[nodiscard]] std::optional<PatchType> patch_type(std::string_view content_type);
// BadRequest for a patch that is none, Invalid (422) for one that does not fit the object.
[[nodiscard]] std::optional<ApiFault> apply_patch(PatchType type, const Json& patch, Json& object);

}  // namespace moonfence::sim
