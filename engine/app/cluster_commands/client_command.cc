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

ClientOutput run_client_command(const ClientOptions& options) {
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
                                                 : options.engine_namespace};
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
    case ClientOptions::Verb::Capture:
      return capture_node(options, ground);
  }
  return {};
}

}  // namespace moonfence::app
