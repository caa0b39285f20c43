#include "app/status/status_json.h"

#include <nlohmann/json.hpp>

#include "app/settings/version.h"
#include "app/status/situation.h"
#include "app/status/status_headline.h"

namespace moonfence::app {
namespace {

using nlohmann::ordered_json;

// Absent rather than empty, so that a program can ask whether it is there.
void add(ordered_json& object, const char* key, const std::string& value) {
  if (!value.empty()) {
    object[key] = value;
  }
}

std::string text_of(const ordered_json& document) {
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json json_of(const StoryLine& line) {
  ordered_json json = {{"time", format_rfc3339_micro(line.at)},
                       {"kind", audit::to_string(line.kind)},
                       {"reason", audit::code(line.reason)}};
  add(json, "action", line.action);
  add(json, "attachment", line.attachment);
  add(json, "policy", line.policy);
  add(json, "policyDigest", line.policy_digest);
  add(json, "text", line.text);
  if (line.attempt > 0) {
    json["attempt"] = line.attempt;
  }
  if (line.took > Duration::zero()) {
    json["tookMicroseconds"] =
        std::chrono::duration_cast<std::chrono::microseconds>(line.took).count();
  }
  if (line.times > 1) {
    json["times"] = line.times;
  }
  return json;
}

ordered_json json_of(const std::vector<StoryLine>& lines) {
  ordered_json json = ordered_json::array();
  for (const StoryLine& line : lines) {
    json.push_back(json_of(line));
  }
  return json;
}

ordered_json json_of(const StatusSnapshot& snapshot, const IncidentStory& story) {
  ordered_json json = {{"id", story.id.text()},
                       {"node", story.node.text()},
                       {"opened", format_rfc3339_micro(story.opened)},
                       {"openedFor", audit::code(story.opened_for)}};
  if (story.closed) {
    json["closed"] = format_rfc3339_micro(*story.closed);
    json["closedFor"] = audit::code(story.closed_for);
  }
  const StatusSnapshot::Stand* stand = snapshot.stand_of(story.id);
  if (stand != nullptr && !story.closed) {
    put_stand(json, *stand);
    if (stand->incident_status.state == fence::IncidentStatus::State::Held &&
        stand->incident_status.reason) {
      json["held"] = audit::code(*stand->incident_status.reason);
    }
  }
  json["counts"] = counts_json(count_pods(story));
  json["fromRecord"] = story.recalled;
  json["lines"] = json_of(story.lines);
  json["linesLeftOut"] = story.cut;
  json["pods"] = ordered_json::array();
  for (const PodStory& pod : story.pods) {
    json["pods"].push_back({{"namespace", pod.pod.space.text()},
                            {"name", pod.pod.name},
                            {"uid", pod.uid.text()},
                            {"state", state_of(pod).word},
                            {"lines", json_of(pod.lines)},
                            {"linesLeftOut", pod.cut}});
  }
  json["podRecordsLeftOut"] = story.cut_pods;
  return json;
}

ordered_json json_of(const StatusSnapshot& snapshot,
                     const std::vector<IncidentBook::Story>& stories) {
  ordered_json json = ordered_json::array();
  for (const IncidentBook::Story& story : stories) {
    json.push_back(json_of(snapshot, *story));
  }
  return json;
}

ordered_json json_of(const StatusSnapshot::Guard& guard) {
  ordered_json json = brake_json(guard);
  json.update(ordered_json{{"disruptedZones", guard.disrupted_zones},
                           {"beingFenced", guard.being_fenced},
                           {"incidentsWaiting", guard.waiting},
                           {"incidentsFailing", guard.failing},
                           {"limits",
                            {{"maxDown", guard.max_down},
                             {"maxAtOnce", guard.at_once},
                             {"maxPerWindow", guard.per_window},
                             {"window", guard.window}}},
                           {"selfDoubt", guard.doubts},
                           {"serverSlow", guard.slowness},
                           {"fencedNodes", guard.fenced_nodes},
                           {"doubtfulNodes", guard.doubtful_nodes},
                           {"silentNodes", guard.silent_nodes},
                           {"taintsKept", kept_json(guard)},
                           {"healthSources", sources_json(guard)},
                           {"auditRecordsLost", guard.audit_failures}});
  return json;
}

ordered_json json_of(const NodeStatus& node) {
  ordered_json json = {{"name", node.view.name.text()},
                       {"ready", cluster::to_string(node.view.readiness)}};
  if (node.view.since) {
    json["since"] = format_rfc3339(*node.view.since);
  }
  add(json, "zone", node.view.zone);
  json["controlPlane"] = node.view.control_plane;
  json["cordoned"] = node.view.unschedulable;
  json["fenced"] = node.view.fenced;
  json["calledFailed"] = node.called_failed;
  return json;
}

ordered_json nodes_json(const StatusSnapshot& snapshot) {
  ordered_json list = ordered_json::array();
  for (const NodeStatus& node : snapshot.nodes) {
    list.push_back(json_of(node));
  }
  return {{"total", snapshot.counts.total},
          {"ready", snapshot.counts.ready},
          {"schedulable", snapshot.counts.schedulable},
          {"list", std::move(list)},
          {"leftOut", snapshot.nodes_cut}};
}

ordered_json replica_json(const StatusSnapshot::Replica& replica) {
  ordered_json json = {{"instance", replica.instance}};
  add(json, "node", replica.node);
  json["server"] = replica.server;
  json["started"] = format_rfc3339(replica.started);
  json["elects"] = replica.elects;
  json["leads"] = replica.leads;
  add(json, "holder", replica.holder);
  return json;
}

}  // namespace

std::string status_json(const StatusSnapshot& snapshot, WallTime now) {
  ordered_json policies = policy::to_json(snapshot.policies);
  return text_of({{"api", 1},
                  {"version", version()},
                  {"commit", commit()},
                  {"taken", format_rfc3339_micro(snapshot.taken)},
                  {"state", headline_json(headline_of(snapshot, now))},
                  {"mode", policy::to_string(snapshot.policies.mode)},
                  {"replica", replica_json(snapshot.replica)},
                  {"guard", json_of(snapshot.guard)},
                  {"notReady", snapshot.not_ready},
                  {"detection", detection_json(snapshot)},
                  {"fencers", fencers_json(snapshot)},
                  {"nodes", nodes_json(snapshot)},
                  {"policies", std::move(policies)},
                  {"incidents",
                   {{"open", snapshot.open_incidents},
                    {"underWay", json_of(snapshot, snapshot.under_way)},
                    {"past", json_of(snapshot, snapshot.past)}}}});
}

std::string incident_json(const StatusSnapshot& snapshot, const IncidentStory& story) {
  return text_of(json_of(snapshot, story));
}

}  // namespace moonfence::app
