#pragma once

// Finds out how to reach the API server, in the order operators know from controller-runtime:
// --kubeconfig, then KUBECONFIG (a colon list, merged), then the pod's service account, then
// ~/.kube/config. Merging follows client-go: for named entries the first file wins as a whole, for
// scalars the first value that is not empty. Sources: client-go tools/clientcmd/loader.go,
// client_config.go, validation.go, rest/config.go.

#include <string>
#include <vector>

#include "base/result.h"
#include "kube/auth/connection.h"
#include "port/files.h"

namespace moonfence::kube {

struct ConfigOptions {
  std::string kubeconfig;  // --kubeconfig; must exist when given
  std::string context;     // empty: current-context
  // Exec plugins that may run, each as the kubeconfig's command resolves; empty: any.
  std::vector<std::string> allowed_plugins = {};
};

struct LoadedConfig {
  Connection connection;
  std::vector<std::string> warnings;  // to be logged once: insecure TLS, missing listed files
};

[[nodiscard]] Result<LoadedConfig> load_config(port::Files& files, const ConfigOptions& options);

// The namespace we live in: POD_NAMESPACE, else the service account's, else `fallback`.
[[nodiscard]] std::string own_namespace(port::Files& files, const std::string& fallback);

}  // namespace moonfence::kube
