#include "app/cluster_commands/client_command.h"

#include "os/system/system_files.h"

namespace moonfence::app {

ClientOutput refused(ClientExit code, const Error& error) {
  return {.code = code, .out = {}, .err = "moonfence: " + error.message() + "\n"};
}

ClientOutput refused(const Error& error) {
  return refused(error.kind == Error::Kind::NotFound ? ClientExit::NotFound : ClientExit::Failed,
                 error);
}

Result<std::string> authenticated_user(ClusterClient& client) {
  const auto answer =
      client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews",
                  {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "SelfSubjectReview"}});
  if (!answer) {
    return failure(answer.error());
  }
  const nlohmann::json::json_pointer path("/status/userInfo/username");
  if (!answer->contains(path) || !answer->at(path).is_string()) {
    return failure(Error::Kind::Malformed, "the API server does not say who asks",
                   "is --kubeconfig that of a Kubernetes API server?");
  }
  return answer->at(path).get<std::string>();
}

tl::expected<DeployedSettings, ClientOutput> deployed_settings(ClientGround& ground) {
  const auto map = ground.client.get("/api/v1/namespaces/" + ground.engine_namespace +
                                     "/configmaps/moonfence-config");
  const nlohmann::json::json_pointer at("/data/config.yaml");
  if (!map && map.error().kind != Error::Kind::NotFound &&
      map.error().kind != Error::Kind::Forbidden) {
    return tl::unexpected(refused(ClientExit::Failed, map.error()));
  }
  if (!map || !map->contains(at) || !map->at(at).is_string()) {
    return DeployedSettings{
        .settings = {},
        .missing = "ConfigMap " + ground.engine_namespace + "/moonfence-config " +
                   (map                                         ? "has no config.yaml"
                    : map.error().kind == Error::Kind::NotFound ? "is not there"
                                                                : "may not be read"),
        .refusal = !map && map.error().kind == Error::Kind::Forbidden ? std::optional(map.error())
                                                                      : std::nullopt};
  }
  auto parsed = parse_settings(map->at(at).get<std::string>(), "moonfence-config");
  if (!parsed) {
    return tl::unexpected(refused(ClientExit::Config, parsed.error()));
  }
  return DeployedSettings{.settings = *std::move(parsed), .missing = {}};
}

ClientOutput run_client_command(const ClientOptions& options,
                                const std::function<void(const std::string&)>& tell) {
  os::SystemFiles files;
  auto config =
      kube::load_config(files, {.kubeconfig = options.kubeconfig, .context = options.context});
  if (!config) {
    return refused(ClientExit::Config, config.error());
  }
  ClientGround ground = {.files = files,
                         .config = *config,
                         .client = ClusterClient(*config),
                         .engine_namespace = options.engine_namespace.empty()
                                                 ? kube::own_namespace(files, "moonfence")
                                                 : options.engine_namespace,
                         .tell = tell};
  switch (options.verb) {
    case ClientOptions::Verb::Plan:
      return plan_nodes(options, ground);
    case ClientOptions::Verb::Explain:
      return explain_pod(options, ground);
    case ClientOptions::Verb::Status:
      return show_status(options, ground);
    case ClientOptions::Verb::Incidents:
      return list_incidents(options, ground);
    case ClientOptions::Verb::Incident:
      return show_incident(options, ground);
    case ClientOptions::Verb::Attest:
      return attest_node(options, ground);
    case ClientOptions::Verb::FencerCheck:
      return check_fencers(options, ground);
    case ClientOptions::Verb::FencerRehearse:
      return rehearse_fencer(options, ground);
    case ClientOptions::Verb::Capture:
      return capture_node(options, ground);
  }
  return {};
}

}  // namespace moonfence::app
