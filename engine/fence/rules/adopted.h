#pragma once

// A kubelet takes up every pod that is bound to its node's name: it starts their containers. Where
// a machine was made anew under the name of one that died, such a pod is the new machine's.

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/time.h"

namespace moonfence::fence {

// When the last of the pod's containers that run was started, by the kubelet's clock.
[[nodiscard]] std::optional<WallTime> last_start(const nlohmann::json& pod);

// Which containers run and since when. Another text: a kubelet has started one since.
[[nodiscard]] std::string starts_of(const nlohmann::json& pod);

}  // namespace moonfence::fence
