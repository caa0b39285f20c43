#include <set>
#include <tuple>
#include <utility>

#include "app/cluster_commands/client_command.h"
#include "app/cluster_commands/plan_text.h"
#include "app/cluster_commands/status_text.h"
#include "app/engine/preparation.h"
#include "base/text.h"
#include "os/system/clocks.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

RunOptions run_options(const ClientOptions& options, const std::string& engine_namespace) {
  RunOptions run;
  run.kubeconfig = options.kubeconfig;
  run.context = options.context;
  run.engine_namespace = engine_namespace;
  run.config = options.config;
  run.policy = options.policy;
  run.policy_namespace = options.policy_namespace;
  if (!options.mode.empty()) {
    run.mode = options.mode == "enforce"   ? policy::Mode::Enforce
               : options.mode == "observe" ? policy::Mode::Observe
                                           : policy::Mode::Off;
  }
  return run;
}

ClientExit exit_of(ExitCode code) {
  return code == ExitCode::Policy ? ClientExit::Policy : ClientExit::Config;
}

std::string config_map_path(const ClientGround& ground, const std::string& name) {
  return "/api/v1/namespaces/" + ground.engine_namespace + "/configmaps/" + name;
}

constexpr const char* kUnheard = "; what the engine that acts does now is not shown";

// Who leads. What cannot be read is told: a plan without the engine's own words looks like one of
// an engine that is at ease.
ClusterStatus read_leader(ClientGround& ground, std::vector<std::string>& notes) {
  ClusterStatus status;
  const auto lease = ground.client.get("/apis/coordination.k8s.io/v1/namespaces/" +
                                       ground.engine_namespace + "/leases/moonfence");
  if (lease) {
    auto leader = leader_of(*lease);
    if (leader) {
      status.leader = *std::move(leader);
    } else {
      notes.push_back("the leader's Lease cannot be understood: " + leader.error().message() +
                      kUnheard);
    }
  } else if (lease.error().kind != Error::Kind::NotFound) {
    notes.push_back("the leader's Lease cannot be read: " + lease.error().message() + kUnheard);
  }
  return status;
}

// What it tells of the whole; null where nobody leads.
json situation_by(ClientGround& ground, ClusterStatus& status, std::vector<std::string>& notes) {
  if (!status.leader || status.leader->holder.empty()) {
    return {};
  }
  const std::string& identity = status.leader->holder;
  if (!status.is_led(os::SystemWallClock().now())) {
    notes.push_back("nobody leads: by the clock of this computer " + escaped(identity, 256) +
                    " does not renew its Lease");
    return {};
  }
  const auto map = ground.client.get(config_map_path(ground, "moonfence-status"));
  if (!map) {
    if (map.error().kind != Error::Kind::NotFound) {
      notes.push_back("ConfigMap moonfence-status cannot be read: " + map.error().message() +
                      kUnheard);
    }
    return {};
  }
  std::tie(status.instance, status.report) = report_of(*map, identity);
  if (!identity.starts_with(status.instance + "_") || status.situation().is_null()) {
    notes.push_back(escaped(identity, 256) + " has not told yet how it stands" + kUnheard);
    return {};
  }
  return status.situation();
}

// The node on which the leader runs is left alone by it.
std::string node_of(ClientGround& ground, const std::string& identity) {
  const std::string pod = identity.substr(0, identity.find('_'));
  if (!is_dns_label(pod)) {
    return {};
  }
  const auto found =
      ground.client.get("/api/v1/namespaces/" + ground.engine_namespace + "/pods/" + pod);
  const json::json_pointer node("/spec/nodeName");
  return found && found->contains(node) && found->at(node).is_string()
             ? found->at(node).get<std::string>()
             : std::string();
}

}  // namespace

tl::expected<Rehearsal, ClientOutput> rehearse_nodes(const ClientOptions& options,
                                                     ClientGround& ground,
                                                     const std::vector<NodeName>& nodes,
                                                     bool assume_down) {
  os::ThreadCpuClock clock;
  auto prepared = prepare(run_options(options, ground.engine_namespace), ground.files, clock);
  if (!prepared) {
    return tl::unexpected(refused(exit_of(prepared.error().code), prepared.error().error));
  }
  Rehearsal rehearsal;
  Assignment& told = prepared->assignment;
  if (options.config.empty()) {
    auto deployed = deployed_settings(ground);
    if (!deployed) {
      return tl::unexpected(std::move(deployed.error()));
    }
    if (!deployed->missing.empty()) {
      rehearsal.notes.push_back(deployed->missing +
                                ": the engine's defaults are supposed; --config names a file");
    }
    told.settings = std::move(deployed->settings);
  }
  ClusterStatus status = read_leader(ground, rehearsal.notes);
  told.node_name = node_of(ground, status.leader ? status.leader->holder : std::string());
  rehearsal.situation = situation_by(ground, status, rehearsal.notes);
  auto rehearsed = rehearse(std::move(told), nodes, assume_down);
  if (!rehearsed) {
    return tl::unexpected(refused(ClientExit::Failed, rehearsed.error()));
  }
  rehearsal.rehearsed = std::move(*rehearsed);
  return rehearsal;
}

ClientOutput plan_nodes(const ClientOptions& options, ClientGround& ground) {
  std::vector<NodeName> nodes;
  std::set<std::string> named;
  for (const std::string& name : options.names) {
    if (named.insert(name).second) {
      nodes.emplace_back(name);
    }
  }
  auto rehearsal = rehearse_nodes(options, ground, nodes, options.assume_down);
  if (!rehearsal) {
    return rehearsal.error();
  }
  Plan plan = plan_of(rehearsal->rehearsed);
  hear_engine(plan, rehearsal->situation);
  plan.notes.insert(plan.notes.begin(), rehearsal->notes.begin(), rehearsal->notes.end());
  ClientOutput output;
  const OutputForm form = options.form();
  if (form == OutputForm::Table || form == OutputForm::Wide) {
    output.out = plan_table(plan, form == OutputForm::Wide);
    for (const std::string& note : plan.notes) {
      output.err += "note: " + note + "\n";
    }
  } else {
    output.out = document_text(plan_document(plan), form);
  }
  for (const Plan::Node& node : plan.nodes) {
    if (node.state == Engine::Supposed::Unknown) {
      output.err += "moonfence plan: no node " + escaped(node.name, 256) +
                    " (kubectl get nodes shows their names)\n";
      output.code = ClientExit::NotFound;
    }
  }
  if (output.code == ClientExit::Ok && plan.acts()) {
    output.code = ClientExit::WouldAct;
  }
  return output;
}

}  // namespace moonfence::app
