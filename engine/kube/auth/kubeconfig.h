#pragma once

// A kubeconfig as plain values: one file parsed without any I/O, and several merged. Entries keep
// the file they came from, because relative paths and messages need it; nothing is checked here
// that only matters for the entry in use (kube/auth/kubeconfig_resolve.h). Sources: client-go
// tools/clientcmd/api/v1/types.go, conversion.go, loader.go.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/auth/connection.h"

namespace moonfence::kube {

struct KubeconfigCluster {
  std::string file;
  std::string server;
  std::string authority_file;
  std::string authority_data;  // base64
  std::string server_name;
  std::string proxy_url;
  std::string plugin_config;  // JSON: what it keeps for exec plugins
  int server_line = 0;        // where they stand in the file; 0 for one that is not given
  int proxy_line = 0;
  bool insecure = false;
};

struct KubeconfigUser {
  std::string file;
  std::string token;
  std::string token_file;
  std::string username;
  std::string password;
  std::string certificate_file;
  std::string certificate_data;  // base64
  std::string key_file;
  std::string key_data;  // base64
  std::string auth_provider;
  int auth_provider_line = 0;
  int exec_line = 0;
  std::optional<ExecPlugin> exec;
  std::string interactive_mode;  // of exec
  std::string as;
  std::string as_uid;
  std::vector<std::string> as_groups;
  std::map<std::string, std::vector<std::string>> as_extra;
};

struct KubeconfigContext {
  std::string file;
  std::string cluster;
  std::string user;
  std::string space;
};

struct Kubeconfig {
  std::string current_context;
  std::map<std::string, KubeconfigCluster> clusters;
  std::map<std::string, KubeconfigUser> users;
  std::map<std::string, KubeconfigContext> contexts;
};

// Larger files are refused.
inline constexpr std::size_t kKubeconfigLimit = 1U << 20U;

// One file's text. `path` is for messages and for KubeconfigCluster::file and its likes. Unknown
// fields are ignored, as kubectl does; relative paths are resolved against the folder of `path`.
// Never quotes a value that may be secret.
[[nodiscard]] Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path);

// Adds what `first` does not have: an entry of an earlier file wins as a whole.
void merge_kubeconfig(Kubeconfig& first, const Kubeconfig& later);

// `path` as seen from the folder of `file`; absolute and empty paths stay as they are.
[[nodiscard]] std::string path_beside(const std::string& file, const std::string& path);

}  // namespace moonfence::kube
