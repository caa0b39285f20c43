#include "kube/auth/config.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kube/auth/in_cluster.h"
#include "kube/auth/kubeconfig.h"
#include "kube/auth/kubeconfig_resolve.h"

namespace moonfence::kube {
namespace {

Result<Kubeconfig> read_kubeconfig(port::Files& files, const std::string& path) {
  auto text = files.read(path, kKubeconfigLimit);
  if (!text) {
    Error error = std::move(text).error().within("kubeconfig");
    error.hint = "check the path and who may read it";
    return failure(std::move(error));
  }
  return parse_kubeconfig(*text, path);
}

Result<LoadedConfig> load_file(port::Files& files, const std::string& path,
                               const ConfigOptions& options) {
  auto config = read_kubeconfig(files, path);
  if (!config) {
    return failure(std::move(config).error());
  }
  return resolve_kubeconfig(files, *config, options, "kubeconfig " + escaped(path));
}

// The colon list of KUBECONFIG. Unlike client-go, which falls back to the service account, it is an
// error when none of the files exists: whoever named them did not mean another cluster.
Result<LoadedConfig> load_list(port::Files& files, const std::string& list,
                               const ConfigOptions& options) {
  Kubeconfig merged;
  std::vector<std::string> paths;
  std::vector<std::string> missing;
  for (const std::string_view part : split(list, ':')) {
    const std::string path(part);
    if (path.empty() || std::find(paths.begin(), paths.end(), path) != paths.end() ||
        std::find(missing.begin(), missing.end(), path) != missing.end()) {
      continue;
    }
    auto config = read_kubeconfig(files, path);
    if (config) {
      merge_kubeconfig(merged, *config);
      paths.push_back(path);
    } else if (config.error().kind == Error::Kind::NotFound) {
      missing.push_back(path);
    } else {
      return failure(std::move(config).error().within("KUBECONFIG"));
    }
  }
  if (paths.empty()) {
    return failure(Error::Kind::NotFound,
                   "KUBECONFIG names no file that exists: \"" + escaped(list) + "\"",
                   "correct KUBECONFIG, or unset it");
  }
  auto loaded =
      resolve_kubeconfig(files, merged, options, "kubeconfig " + escaped(joined(paths, ":")));
  if (loaded) {
    for (const std::string& path : missing) {
      loaded->warnings.push_back("KUBECONFIG: " + escaped(path) + " does not exist");
    }
  }
  return loaded;
}

Result<LoadedConfig> load_in_cluster(port::Files& files, const ConfigOptions& options) {
  if (!options.context.empty()) {
    return failure(Error::Kind::Invalid,
                   "context \"" + escaped(options.context, 256) +
                       "\" was asked for, but in a pod there are no contexts",
                   "leave --context out, or give --kubeconfig");
  }
  auto connection = in_cluster_connection(files);
  if (!connection) {
    return failure(std::move(connection).error());
  }
  return LoadedConfig{.connection = *std::move(connection), .warnings = {}};
}

}  // namespace

Result<LoadedConfig> load_config(port::Files& files, const ConfigOptions& options) {
  if (!options.kubeconfig.empty()) {
    return load_file(files, options.kubeconfig, options);
  }
  const std::string list = files.environment("KUBECONFIG").value_or("");
  if (!list.empty()) {
    return load_list(files, list, options);
  }
  if (runs_in_cluster(files)) {
    return load_in_cluster(files, options);
  }
  const std::string home = files.environment("HOME").value_or("");
  if (!home.empty()) {
    const std::string path = home + "/.kube/config";
    auto loaded = load_file(files, path, options);
    // A missing file that the kubeconfig names is another matter.
    if (loaded || files.read(path, kKubeconfigLimit) ||
        loaded.error().kind != Error::Kind::NotFound) {
      return loaded;
    }
  }
  return failure(Error::Kind::NotFound,
                 "no way to the API server is configured: no --kubeconfig, KUBECONFIG is not set, "
                 "this is no pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT), and there "
                 "is no ~/.kube/config",
                 "give --kubeconfig FILE");
}

std::string own_namespace(port::Files& files, const std::string& fallback) {
  const std::string given = files.environment("POD_NAMESPACE").value_or("");
  if (!trimmed(given).empty()) {
    return std::string(trimmed(given));
  }
  const auto mounted = files.read(std::string(kServiceAccountFolder) + "/namespace");
  if (mounted && !trimmed(*mounted).empty()) {
    return std::string(trimmed(*mounted));
  }
  return fallback;
}

}  // namespace moonfence::kube
