#include "app/status_text.h"

#include <algorithm>

#include "app/incident_text.h"
#include "app/text_table.h"
#include "base/text.h"

namespace moonfence::app {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : std::string();
}

const json& list_of(const json& object, const char* key) {
  static const json none = json::array();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_array() ? *found : none;
}

std::string ago(WallTime then, WallTime now) {
  return format_duration(
             std::chrono::round<std::chrono::seconds>(std::max<Duration>(now - then, {}))) +
         " ago";
}

// "sha256:" and twelve digits: enough to tell two texts apart.
std::string shortened(const std::string& digest) {
  constexpr std::size_t kShown = 7 + 12;
  return digest.substr(0, kShown);
}

constexpr const char* kUnread = "unknown: could not be read";

std::string leader_line(const ClusterStatus& status, WallTime now) {
  if (!status.knows(ClusterStatus::Part::Lease)) {
    return kUnread;
  }
  if (!status.leader) {
    return "nobody: there is no Lease moonfence (is the engine running, with --leader-elect?)";
  }
  const ClusterStatus::Leader& leader = *status.leader;
  if (leader.holder.empty()) {
    return "nobody: the last one gave the Lease back";
  }
  const std::string renewed =
      leader.renewed ? ", renewed " + ago(*leader.renewed, now) : std::string();
  return status.is_led(now)
             ? escaped(leader.holder, 256) + renewed
             : "nobody: the term of " + escaped(leader.holder, 256) + " has run out" + renewed;
}

std::string reload_line(const ClusterStatus& status) {
  if (!status.knows(ClusterStatus::Part::Report)) {
    return kUnread;
  }
  if (status.report.is_null()) {
    return "unknown: no replica has reported (ConfigMap moonfence-status)";
  }
  const json& faults = list_of(status.report, "faults");
  const json& policies = list_of(status.report, "policies");
  const auto rejected = std::count_if(policies.begin(), policies.end(),
                                      [](const json& policy) { return policy.contains("error"); });
  const std::string version = text_of(status.report, "observedResourceVersion");
  std::string text =
      version.empty() ? std::string("no ConfigMap moonfence-policies") : "version " + version;
  text += " read " + text_of(status.report, "observedAt");
  text += faults.empty() && rejected == 0 ? ", accepted"
                                          : ", " + std::to_string(faults.size()) + " faults, " +
                                                std::to_string(rejected) + " policies rejected";
  return text;
}

std::string nodes_line(const ClusterStatus& status) {
  if (!status.knows(ClusterStatus::Part::Nodes)) {
    return kUnread;
  }
  const auto down = std::count_if(status.down.begin(), status.down.end(),
                                  [](const auto& node) { return node.ready != "True"; });
  return std::to_string(down) + " of " + std::to_string(status.nodes) + " down";
}

std::string policies_table(const json& report) {
  std::string warnings;
  if (const std::string idle = text_of(report, "nothingFenced"); !idle.empty()) {
    warnings += "  NOTHING IS FENCED, whatever fails: " + escaped(idle) + "\n";
  }
  for (const json& name : list_of(report, "unbound")) {
    warnings += "  no binding names " + escaped(name.is_string() ? name.get<std::string>() : "?") +
                ".lua: it is not in force\n";
  }
  TextTable table({"POLICY", "STATE", "MODE", "NAMESPACES", "DIGEST", "SINCE", "ERROR"});
  for (const json& policy : list_of(report, "policies")) {
    const auto error = policy.find("error");
    table.add({text_of(policy, "name"), text_of(policy, "state"), text_of(policy, "mode"),
               text_of(policy, "namespaces"), shortened(text_of(policy, "digest")),
               text_of(policy, "since"),
               error == policy.end() ? std::string() : text_of(*error, "message")});
  }
  return warnings + table.text("  ");
}

}  // namespace

bool ClusterStatus::is_led(WallTime now) const {
  return leader && !leader->holder.empty() && leader->renewed &&
         now - *leader->renewed <= leader->term;
}

std::pair<std::string, json> report_of(const json& config_map, const std::string& holder) {
  const auto data = config_map.find("data");
  std::pair<std::string, json> newest;
  if (data == config_map.end() || !data->is_object()) {
    return newest;
  }
  for (const auto& [instance, text] : data->items()) {
    json report = text.is_string() ? json::parse(text.get<std::string>(), nullptr, false) : json();
    if (!report.is_object()) {
      continue;
    }
    if (holder.starts_with(instance + "_")) {
      return {instance, std::move(report)};
    }
    if (newest.second.is_null() ||
        text_of(newest.second, "observedAt") < text_of(report, "observedAt")) {
      newest = std::pair(instance, std::move(report));
    }
  }
  return newest;
}

std::string status_text(const ClusterStatus& status, WallTime now) {
  std::string text = "LEADER      " + leader_line(status, now) + "\n";
  const std::string mode = text_of(status.report, "mode");
  text += "MODE        " +
          (mode.empty() ? "unknown" : mode + ", set by " + text_of(status.report, "modeSetBy")) +
          "\n";
  text += "POLICIES    " + reload_line(status) + "\n";
  for (const json& fault : list_of(status.report, "faults")) {
    text +=
        "  fault: " + escaped(fault.is_string() ? fault.get<std::string>() : fault.dump()) + "\n";
  }
  text += policies_table(status.report);
  text += "NODES       " + nodes_line(status) + "\n";
  TextTable nodes({"NODE", "READY", "SINCE", "FENCED"});
  for (const ClusterStatus::Node& node : status.down) {
    nodes.add({node.name, node.ready, node.since, node.fenced ? "yes" : "no"});
  }
  text += nodes.text("  ");
  text +=
      "INCIDENTS   " +
      (status.knows(ClusterStatus::Part::Incidents) ? std::to_string(status.open.size()) + " open"
                                                    : std::string(kUnread)) +
      "\n";
  return text + incidents_table(status.open, "  ");
}

ordered_json status_document(const ClusterStatus& status, WallTime now) {
  ordered_json leader = nullptr;
  if (status.leader) {
    leader = {{"holder", status.leader->holder},
              {"leads", status.is_led(now)},
              {"renewed", status.leader->renewed ? format_rfc3339_micro(*status.leader->renewed)
                                                 : std::string()},
              {"transitions", status.leader->transitions}};
  }
  ordered_json nodes = ordered_json::array();
  for (const ClusterStatus::Node& node : status.down) {
    nodes.push_back({{"name", node.name},
                     {"ready", node.ready},
                     {"since", node.since},
                     {"fenced", node.fenced}});
  }
  ordered_json incidents = ordered_json::array();
  for (const fence::IncidentRecord& record : status.open) {
    incidents.push_back({{"id", record.id.text()},
                         {"node", record.node.text()},
                         {"opened", format_rfc3339(record.opened)},
                         {"steps", record.steps.size()}});
  }
  // Null is what is not known.
  const auto if_known = [&status](ClusterStatus::Part part, ordered_json value) {
    return status.knows(part) ? std::move(value) : ordered_json();
  };
  return {{"kind", "Status"},
          {"leader", std::move(leader)},
          {"reportedBy", status.instance},
          {"report", ordered_json(status.report)},
          {"nodes", if_known(ClusterStatus::Part::Nodes, status.nodes)},
          {"down", if_known(ClusterStatus::Part::Nodes, std::move(nodes))},
          {"openIncidents", if_known(ClusterStatus::Part::Incidents, std::move(incidents))},
          {"notes", status.notes}};
}

}  // namespace moonfence::app
