#pragma once

// What is said to an exec plugin and what it says back (client.authentication.k8s.io v1, v1beta1),
// as pure functions. Source: client-go plugin/pkg/client/auth/exec/exec.go.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "kube/auth/connection.h"

namespace moonfence::kube {

struct ExecCredential {
  std::string token;            // "" when the plugin gave a certificate only
  std::string certificate_pem;  // both or none
  std::string key_pem;
  std::optional<WallTime> expires;

  friend bool operator==(const ExecCredential&, const ExecCredential&) = default;
};

// The value of KUBERNETES_EXEC_INFO: never interactive; the cluster only for plugins that ask.
[[nodiscard]] std::string exec_info(const ExecPlugin& plugin, const Connection& connection);

// A plugin's standard output. Malformed when it breaks a rule; the output itself is never quoted.
[[nodiscard]] Result<ExecCredential> parse_exec_credential(std::string_view output,
                                                           const std::string& api_version);

}  // namespace moonfence::kube
