// `moonfence fencer check`: asks each node's fencers whether its machine has power. It only asks.

#include <utility>

#include "app/cluster_commands/client_command.h"
#include "app/engine/load_fencers.h"
#include "app/engine/preparation.h"
#include "app/fencer_check/fencer_asking.h"
#include "base/text.h"
#include "kube/objects/decode.h"
#include "kube/wire/url.h"
#include "os/system/clocks.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

constexpr const char* kNodes = "/api/v1/nodes";

std::string in_the_pod(const ClientGround& ground) {
  return "run it where the engine runs: kubectl -n " + ground.engine_namespace +
         " exec deployment/moonfence -- moonfence fencer check";
}

// What the engine would take if it started now.
tl::expected<Settings, ClientOutput> settings_for(const ClientOptions& options,
                                                  ClientGround& ground) {
  if (!options.config.empty()) {
    auto settings = load_settings(ground.files, options.config);
    return settings ? tl::expected<Settings, ClientOutput>(*std::move(settings))
                    : tl::unexpected(refused(ClientExit::Config, settings.error()));
  }
  auto deployed = deployed_settings(ground);
  if (!deployed) {
    return tl::unexpected(std::move(deployed.error()));
  }
  if (deployed->refusal) {
    return tl::unexpected(refused(ClientExit::Failed, *deployed->refusal));
  }
  if (!deployed->missing.empty()) {
    return tl::unexpected(
        refused(ClientExit::Config,
                Error{.kind = Error::Kind::NotFound,
                      .text = "nobody knows which fencers there are: " + deployed->missing,
                      .hint = "name its namespace by -n, or its file by --config"}));
  }
  return std::move(deployed->settings);
}

tl::expected<std::vector<kube::Node>, ClientOutput> read_nodes(const ClientOptions& options,
                                                               ClientGround& ground) {
  std::vector<json> objects;
  for (const std::string& name : options.names) {
    const auto segment = kube::path_segment(name);
    if (!segment) {
      return tl::unexpected(refused(ClientExit::Usage, segment.error()));
    }
    auto object = ground.client.get(std::string(kNodes) + "/" + *segment);
    if (!object) {
      Error error = object.error();
      if (error.kind == Error::Kind::NotFound) {
        error.hint = "kubectl get nodes shows their names";
      }
      return tl::unexpected(refused(error));
    }
    objects.push_back(*std::move(object));
  }
  if (options.names.empty()) {
    auto list = ground.client.get(kNodes);
    if (!list) {
      return tl::unexpected(refused(ClientExit::Failed, list.error()));
    }
    objects = list->value("items", objects);
  }
  std::vector<kube::Node> nodes;
  for (const json& object : objects) {
    auto node = kube::decode_node(object, /*keep_raw=*/true);
    if (!node) {
      return tl::unexpected(refused(ClientExit::Failed, node.error()));
    }
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

// Credentials are mounted where the engine runs, and mostly not where somebody types this.
std::string note_on_files(const cluster::EndpointTable& endpoints, ClientGround& ground) {
  for (const auto& [name, rules] : endpoints) {
    for (const std::string& path : {rules.ca_file, rules.certificate_file, rules.key_file,
                                    rules.username_file, rules.password_file, rules.token_file}) {
      if (!path.empty() && !ground.files.read(path)) {
        return "note: endpoint " + escaped(name, 64) + ": " + escaped(path, 256) +
               " cannot be read here; " + in_the_pod(ground) + "\n";
      }
    }
  }
  return {};
}

}  // namespace

ClientOutput check_fencers(const ClientOptions& options, ClientGround& ground) {
  const auto settings = settings_for(options, ground);
  if (!settings) {
    return settings.error();
  }
  os::ThreadCpuClock clock;
  const auto fencers = load_fencers(settings->fencers, ground.files, clock);
  if (!fencers) {
    Error error = fencers.error();
    error.hint = error.hint.empty() ? in_the_pod(ground) : error.hint;
    return refused(ClientExit::Config, error);
  }
  const auto nodes = read_nodes(options, ground);
  if (!nodes) {
    return nodes.error();
  }
  const FencerReport report = {.nodes = ask_fencers({.config = ground.config,
                                                     .allowed_reads = settings->allowed_reads,
                                                     .endpoints = settings->endpoints,
                                                     .fencers = *fencers},
                                                    *nodes),
                               .any_bound = !fencers->empty()};
  const fence::FencerCounts counts = report.counts();
  ClientOutput output = {
      .code = counts.works == counts.all() ? ClientExit::Ok : ClientExit::Unproven,
      .out = options.form() == OutputForm::Table
                 ? fencer_text(report)
                 : document_text(fencer_document(report), options.form()),
      .err = {}};
  if (counts.broken > 0) {
    output.err = note_on_files(settings->endpoints, ground);
  }
  return output;
}

}  // namespace moonfence::app
