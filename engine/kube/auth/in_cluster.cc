#include "kube/auth/in_cluster.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "kube/auth/server_url.h"
#include "kube/text/pem.h"

namespace moonfence::kube {
namespace {

std::string mounted(std::string_view name) {
  return std::string(kServiceAccountFolder) + "/" + std::string(name);
}

Result<std::string> read_mounted(port::Files& files, const std::string& path) {
  auto text = files.read(path);
  if (!text) {
    Error error = std::move(text).error().within("in-cluster");
    error.hint =
        "set automountServiceAccountToken: true and a serviceAccountName, or give --kubeconfig";
    return failure(std::move(error));
  }
  if (trimmed(*text).empty()) {
    return failure(Error::Kind::Invalid, "in-cluster: " + path + " is empty",
                   "the service-account mount is broken; delete the pod to get a new one");
  }
  return *std::move(text);
}

}  // namespace

bool runs_in_cluster(port::Files& files) {
  return !files.environment("KUBERNETES_SERVICE_HOST").value_or("").empty() &&
         !files.environment("KUBERNETES_SERVICE_PORT").value_or("").empty();
}

Result<Connection> in_cluster_connection(port::Files& files) {
  const std::string host = files.environment("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = files.environment("KUBERNETES_SERVICE_PORT").value_or("");
  auto server = server_url("https://" + host_and_port(host, port));
  if (!server) {
    return failure(std::move(server).error().within(
        "in-cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"));
  }
  Connection connection;
  connection.server = *std::move(server);
  connection.origin = "in-cluster";
  connection.ca_file = mounted("ca.crt");
  connection.identity.token_file = mounted("token");

  auto token = read_mounted(files, connection.identity.token_file);
  if (!token) {
    return failure(std::move(token).error());
  }
  connection.identity.token = std::string(trimmed(*token));
  auto authority = read_mounted(files, connection.ca_file);
  if (!authority) {
    return failure(std::move(authority).error());
  }
  if (const auto fault = pem_fault(*authority, Pem::Certificate)) {
    return failure(Error::Kind::Invalid, "in-cluster: " + connection.ca_file + " " + *fault,
                   "look at the ConfigMap kube-root-ca.crt in this namespace");
  }
  connection.ca_pem = *std::move(authority);
  if (const auto space = files.read(mounted("namespace")); space && !trimmed(*space).empty()) {
    connection.default_namespace = std::string(trimmed(*space));
  }
  return connection;
}

}  // namespace moonfence::kube
