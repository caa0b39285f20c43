#pragma once

// Where a pod keeps what lasts. Pure.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/values/facts.h"

namespace moonfence::policy {

// The CSI drivers of all persistent volumes of the pod, by its JSON and what is known of its
// claims. Empty where that does not say it all: a claim that is not bound or not known, a volume
// that is not CSI's own, a kind of volume that may outlive the pod without being a claim, a
// privileged container, a claim of a device, or no persistent volume at all.
[[nodiscard]] std::set<std::string> storage_drivers(
    const nlohmann::json& pod, const std::optional<std::vector<VolumeFacts>>& volumes);

}  // namespace moonfence::policy
