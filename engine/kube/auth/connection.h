#pragma once

// Where the API server is and how we show who we are: what a kubeconfig or a service-account mount
// boils down to. Plain values; kube/auth/credentials.h keeps the parts fresh that rotate.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "port/http.h"

namespace moonfence::kube {

// An exec plugin of a kubeconfig (client.authentication.k8s.io v1 or v1beta1).
struct ExecPlugin {
  std::string api_version;
  std::string command;  // resolved against its kubeconfig's folder when it contains a slash
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string install_hint;  // control characters already removed
  bool provide_cluster_info = false;

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

// At most one of token/token_file, basic and exec; client certificates may come with any.
struct Identity {
  std::string token;       // fixed; the last resort when token_file cannot be read
  std::string token_file;  // read again as it rotates
  std::string username;
  std::string password;
  std::string certificate_pem;
  std::string key_pem;
  std::string certificate_file;  // read again as they rotate
  std::string key_file;
  std::optional<ExecPlugin> exec;
  // Impersonate-User, -Uid, -Group, -Extra-*; ready to be sent.
  std::vector<port::Header> impersonation;
};

struct Connection {
  std::string server;  // "https://host:port/prefix" without a trailing slash
  std::string ca_pem;
  std::string ca_file;  // read again as it rotates
  std::string server_name;
  std::string proxy_url;
  std::string plugin_config;  // JSON for exec plugins that want to know the cluster; "" for none
  bool insecure = false;
  std::string default_namespace = "default";
  Identity identity;
  std::string origin;  // for messages: "context kind-kind of ~/.kube/config", "in-cluster"
};

}  // namespace moonfence::kube
