#pragma once

// From a merged kubeconfig and the name of a context to a Connection: everything the context uses
// is checked here, files included. Sources: client-go tools/clientcmd/validation.go,
// client_config.go.

#include <string>
#include <vector>

#include "base/result.h"
#include "kube/auth/config.h"
#include "kube/auth/kubeconfig.h"
#include "port/files.h"

namespace moonfence::kube {

// `place` names the files for messages that belong to no single entry.
[[nodiscard]] Result<LoadedConfig> resolve_kubeconfig(port::Files& files, const Kubeconfig& config,
                                                      const ConfigOptions& options,
                                                      const std::string& place);

}  // namespace moonfence::kube
