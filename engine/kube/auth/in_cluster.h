#pragma once

// The connection of a pod: the service-account mount and the two variables the kubelet sets.
// Source: client-go rest/config.go (InClusterConfig); unlike it, a missing CA is an error.

#include <string_view>

#include "base/result.h"
#include "kube/auth/connection.h"
#include "port/files.h"

namespace moonfence::kube {

inline constexpr std::string_view kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

// Both variables are set: the kubelet says that this is a pod.
[[nodiscard]] bool runs_in_cluster(port::Files& files);

[[nodiscard]] Result<Connection> in_cluster_connection(port::Files& files);

}  // namespace moonfence::kube
