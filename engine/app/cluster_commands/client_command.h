#pragma once

// Performs the commands that ask a cluster; one file a command. None but attest and fencer rehearse
// changes anything.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "app/cluster_commands/client_options.h"
#include "app/cluster_commands/cluster_client.h"
#include "app/rehearsal/plan.h"
#include "app/settings/settings.h"
#include "base/error.h"
#include "port/files.h"

namespace moonfence::app {

struct ClientOutput {
  ClientExit code = ClientExit::Ok;
  std::string out;
  std::string err;
};

// `tell` prints at once what a command says while it is at work.
[[nodiscard]] ClientOutput run_client_command(const ClientOptions& options,
                                              const std::function<void(const std::string&)>& tell);

// What each of them is given beside its options.
struct ClientGround {
  port::Files& files;
  kube::LoadedConfig config;
  ClusterClient client;
  std::string engine_namespace;
  std::function<void(const std::string&)> tell;
};
[[nodiscard]] ClientOutput plan_nodes(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput explain_pod(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput show_status(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput list_incidents(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput show_incident(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput attest_node(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput check_fencers(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput rehearse_fencer(const ClientOptions& options, ClientGround& ground);
[[nodiscard]] ClientOutput capture_node(const ClientOptions& options, ClientGround& ground);

// The code that says why nothing could be printed, and the error with its next step.
[[nodiscard]] ClientOutput refused(ClientExit code, const Error& error);
[[nodiscard]] ClientOutput refused(const Error& error);  // Failed, or NotFound

// Who asks, as the API server knows them.
[[nodiscard]] Result<std::string> authenticated_user(ClusterClient& client);

// The engine's configuration as the manifests of deploy/ hand it to the engine: of ConfigMap
// moonfence-config.
struct DeployedSettings {
  Settings settings;                            // the defaults where there is none
  std::string missing;                          // why there is none; "" there is one
  std::optional<Error> refusal = std::nullopt;  // it may not be read
};
[[nodiscard]] tl::expected<DeployedSettings, ClientOutput> deployed_settings(ClientGround& ground);

// A rehearsal of what the deployed engine is configured to do.
struct Rehearsal {
  Rehearsed rehearsed;
  std::vector<std::string> notes;  // what the rehearsal goes by, where that is not plain
  nlohmann::json situation = {};   // as the engine that acts tells it; null where none does
};
[[nodiscard]] tl::expected<Rehearsal, ClientOutput> rehearse_nodes(
    const ClientOptions& options, ClientGround& ground, const std::vector<NodeName>& nodes,
    bool assume_down);

}  // namespace moonfence::app
