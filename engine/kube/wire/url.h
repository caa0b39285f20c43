#pragma once

// Paths that cannot be tricked: every segment and value is percent-encoded, and what cannot be a
// path segment is refused (client-go rest/request.go, IsValidPathSegmentName).

#include <string>
#include <string_view>

#include "base/names.h"
#include "base/result.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

// Everything but A-Z a-z 0-9 - . _ ~ as %XX.
[[nodiscard]] std::string percent_encoded(std::string_view text);

// Whether every segment was encoded: nothing but what stands for itself, '/' and %XX. What is not
// was put together from raw text, which a '?' or '#' in a name turns into another request.
[[nodiscard]] bool is_built_path(std::string_view path);

// Invalid for "", ".", ".." and names with '/' or '%'.
[[nodiscard]] Result<std::string> path_segment(std::string_view name);

[[nodiscard]] Result<std::string> node_path(const NodeName& name);
// Invalid for an empty namespace: a namespaced call must never become a cluster-wide one.
[[nodiscard]] Result<std::string> pod_path(const PodRef& ref);
// "/api/v1/namespaces/NS/pods", or "/api/v1/pods" for an empty namespace.
[[nodiscard]] Result<std::string> pods_path(const Namespace& space);
[[nodiscard]] Result<std::string> claims_path(const Namespace& space);
[[nodiscard]] Result<std::string> events_path(const Namespace& space);
[[nodiscard]] Result<std::string> volume_path(std::string_view name);      // a PersistentVolume
[[nodiscard]] Result<std::string> attachment_path(std::string_view name);  // a VolumeAttachment
// "/apis/apps/v1/namespaces/NS/replicasets/NAME"; `api_version` is "v1" or "group/version". An
// empty namespace means an object of the cluster.
[[nodiscard]] Result<std::string> object_path(std::string_view api_version,
                                              std::string_view resource, const Namespace& space,
                                              std::string_view name);

// Of all objects of that kind: of the cluster, of the namespace, or of all namespaces.
[[nodiscard]] Result<std::string> objects_path(std::string_view api_version,
                                               std::string_view resource, const Namespace& space);

// The value of a field selector: `\`, ',' and '=' would begin another condition.
[[nodiscard]] std::string selector_value(std::string_view text);

// "a=1&b=x%2Cy", "" for an empty query.
[[nodiscard]] std::string encoded_query(const Query& query);
// What such a text came from.
[[nodiscard]] Query decoded_query(std::string_view text);

}  // namespace moonfence::kube
