#pragma once

// Patches of a scene by input path. What a policy can read and Kubernetes stores is changed in the
// object; what the engine gathers is changed in the facts; what follows from other fields is
// refused, with the field to patch instead.

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "policy/cases/fixture.h"
#include "policy/input/input_path.h"

namespace moonfence::policy {

// Whether a path belongs to the pod's or the node's object; the others are facts, which are
// gathered from the patched objects.
[[nodiscard]] bool is_object_patch(const InputPath& path);

[[nodiscard]] Result<void> patch_object(Scene& scene, const InputPath& path,
                                        const nlohmann::json& value);
[[nodiscard]] Result<void> patch_facts(Scene& scene, const InputPath& path,
                                       const nlohmann::json& value);

// Why `value` cannot stand at `path`, for both halves.
[[nodiscard]] Failure bad_patch(const InputPath& path, const std::string& why,
                                const std::string& hint = "");

}  // namespace moonfence::policy
