#pragma once

// The scheduler's required terms on nodes: of a pod's node affinity and of a PersistentVolume's.

#include <nlohmann/json.hpp>

namespace moonfence::policy {

// Whether the Node object satisfies a NodeSelector (`nodeSelectorTerms`): one of its terms, each of
// whose expressions holds. Null is no demand. A term without expressions, an unknown operator or a
// value of the wrong kind matches no node, as in Kubernetes.
[[nodiscard]] bool matches_selector(const nlohmann::json* selector, const nlohmann::json& node);

}  // namespace moonfence::policy
