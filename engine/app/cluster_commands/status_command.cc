#include <tuple>

#include "app/cluster_commands/client_command.h"
#include "app/cluster_commands/incident_records.h"
#include "app/cluster_commands/status_text.h"
#include "cluster/nodes/node_view.h"
#include "kube/objects/decode.h"
#include "os/system/clocks.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

std::string ready_of(const kube::Node& node) {
  return node.ready ? node.ready->status : std::string();
}

using Part = ClusterStatus::Part;

std::string_view name_of(Part part) {
  switch (part) {
    case Part::Lease:
      return "the leader's Lease";
    case Part::Report:
      return "ConfigMap moonfence-status";
    case Part::Nodes:
      return "the nodes";
    case Part::Incidents:
      return "the incidents' records";
  }
  return {};
}

void miss(ClusterStatus& status, Part part, const Error& error) {
  status.unread.insert(part);
  status.notes.push_back(std::string(name_of(part)) + " cannot be read: " + error.message());
}

// What may not be read is left out and told: whoever asks may see only a part.
template <class Take>
void read_part(ClientGround& ground, ClusterStatus& status, Part part, const std::string& path,
               Take take) {
  const auto found = ground.client.get(path);
  if (found) {
    take(*found);
  } else if (found.error().kind != Error::Kind::NotFound) {
    miss(status, part, found.error());
  }
}

void take_lease(const json& object, ClusterStatus& status) {
  auto leader = leader_of(object);
  if (!leader) {
    status.notes.push_back("the Lease cannot be understood: " + leader.error().message());
    return;
  }
  status.leader = *std::move(leader);
}

void take_nodes(const json& list, ClusterStatus& status) {
  for (const json& item : list.value("items", json::array())) {
    const auto node = kube::decode_node(item);
    if (!node) {
      status.notes.push_back("a node cannot be understood: " + node.error().message());
      continue;
    }
    ++status.nodes;
    const bool fenced = cluster::carries_fenced_taint(*node);
    if (ready_of(*node) != "True" || fenced) {
      const auto since = node->ready ? node->ready->last_transition_time : std::nullopt;
      status.down.push_back({.name = node->name.text(),
                             .ready = ready_of(*node),
                             .since = since ? format_rfc3339(*since) : std::string(),
                             .fenced = fenced});
    }
  }
}

}  // namespace

ClientOutput show_status(const ClientOptions& options, ClientGround& ground) {
  ClusterStatus status;
  const std::string core = "/api/v1/namespaces/" + ground.engine_namespace;
  read_part(
      ground, status, Part::Lease,
      "/apis/coordination.k8s.io/v1/namespaces/" + ground.engine_namespace + "/leases/moonfence",
      [&](const json& object) { take_lease(object, status); });
  read_part(ground, status, Part::Report, core + "/configmaps/moonfence-status",
            [&](const json& object) {
              std::tie(status.instance, status.report) =
                  report_of(object, status.leader ? status.leader->holder : std::string());
            });
  read_part(ground, status, Part::Nodes, "/api/v1/nodes",
            [&](const json& list) { take_nodes(list, status); });
  if (auto stored = read_incidents(ground, "moonfence.io/incident=open")) {
    status.open = std::move(stored->records);
    status.notes.insert(status.notes.end(), stored->faults.begin(), stored->faults.end());
  } else {
    miss(status, Part::Incidents, stored.error());
  }
  const WallTime now = os::SystemWallClock().now();
  ClientOutput output;
  output.code = status.unread.empty() ? ClientExit::Ok : ClientExit::Failed;
  if (options.form() == OutputForm::Table) {
    output.out = status_text(status, now);
    for (const std::string& note : status.notes) {
      output.err += "note: " + note + "\n";
    }
  } else {
    output.out = document_text(status_document(status, now), options.form());
  }
  return output;
}

}  // namespace moonfence::app
