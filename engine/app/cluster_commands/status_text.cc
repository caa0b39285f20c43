#include "app/cluster_commands/status_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "app/cluster_commands/incident_text.h"
#include "app/status/machine_strip.h"
#include "app/status/status_words.h"
#include "app/terminal/text_table.h"
#include "base/text.h"
#include "cluster/detection/silences.h"
#include "fence/fencers/fencer_state.h"
#include "kube/leases/lease.h"
#include "policy/values/act_on.h"

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
  for (const json& policy : list_of(report, "policies")) {
    for (const json& warning : list_of(policy, "warnings")) {
      warnings += "  policy " + escaped(text_of(policy, "name"), 64) + ": " +
                  escaped(warning.is_string() ? warning.get<std::string>() : "?") + "\n";
    }
    for (const json& space : list_of(policy, "absentNamespaces")) {
      warnings += "  policy " + escaped(text_of(policy, "name"), 64) + " is bound to namespace " +
                  escaped(space.is_string() ? space.get<std::string>() : "?", 64) +
                  ", which does not exist\n";
    }
  }
  TextTable table({"POLICY", "STATE", "MODE", "NAMESPACES", "DIGEST", "SINCE", "ERROR"});
  for (const json& policy : list_of(report, "policies")) {
    const auto error = policy.find("error");
    const std::string on(moonfence::policy::which_nodes(text_of(policy, "actOn")));
    table.add({text_of(policy, "name"), text_of(policy, "state"), text_of(policy, "mode") + on,
               text_of(policy, "namespaces"), shortened(text_of(policy, "digest")),
               text_of(policy, "since"),
               error == policy.end() ? std::string() : text_of(*error, "message")});
  }
  return warnings + table.text("  ");
}

const json& member(const json& object, const char* key) {
  static const json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

std::uint64_t number(const json& object, const char* key) {
  const json& value = member(object, key);
  return value.is_number_integer() ? value.get<std::uint64_t>() : 0;
}

std::string unknown(const ClusterStatus& status, const char* why) {
  return status.knows(ClusterStatus::Part::Report) ? std::string("unknown: ") + why : kUnread;
}

std::string state_lines(const ClusterStatus& status) {
  const json& state = member(status.situation(), "state");
  std::string text = "STATE       " +
                     (state.is_null() ? unknown(status, "no replica has told it")
                                      : escaped(text_of(state, "title")) + ". " +
                                            escaped(text_of(state, "text"), 2048)) +
                     "\n";
  for (const json& notice : list_of(state, "notices")) {
    text += "  " + text_of(notice, "tone") + ": " + escaped(text_of(notice, "text"), 2048) + "\n";
  }
  return text;
}

std::string brake_lines(const ClusterStatus& status) {
  const json& brake = member(status.situation(), "brake");
  if (brake.is_null()) {
    return "BRAKE       " + unknown(status, "only the replica that leads tells of it") + "\n";
  }
  std::vector<std::string> names;
  for (const json& name : list_of(brake, "workersDownNames")) {
    names.push_back(name.is_string() ? escaped(name.get<std::string>(), 256) : "?");
  }
  return std::string("BRAKE       ") + (member(brake, "tooManyDown") == true ? "frozen" : "free") +
         ", " + std::to_string(number(brake, "workersDown")) + " of " +
         std::to_string(number(brake, "workers")) + " workers newly down, " +
         limit_text(escaped(text_of(brake, "limit"), 64)) +
         (names.empty() ? "" : ": " + joined(names, ", ")) + "\n";
}

std::string pods_of(const json& counts) {
  constexpr std::array kWords = {std::pair("deleted", "deleted"),
                                 std::pair("wouldBeDeleted", "would be deleted"),
                                 std::pair("notDone", "not done"), std::pair("waiting", "waiting"),
                                 std::pair("leftAlone", "left alone")};
  std::vector<std::string> parts;
  for (const auto& [key, word] : kWords) {
    if (const std::uint64_t pods = number(counts, key); pods > 0) {
      parts.push_back(std::to_string(pods) + " " + word);
    }
  }
  return joined(parts, ", ");
}

// What is over was told before; it is looked at meanwhile.
std::string next_look(const std::string& told, WallTime now) {
  const auto at = parse_rfc3339(told);
  return at && *at <= now ? "now" : told;
}

// As the leader tells it; records that it does not tell of are those of another leader before it,
// or nobody leads.
std::string incidents_lines(const ClusterStatus& status, WallTime now) {
  const json& situation = status.situation();
  const json& told = list_of(situation, "incidents");
  TextTable table({"ID", "NODE", "OPENED", "FOR", "STATE", "REASON", "PODS", "NEXT", "WHY"});
  std::set<std::string> known;
  std::map<std::string, std::size_t> states;
  for (const json& incident : told) {
    known.insert(text_of(incident, "id"));
    ++states[text_of(incident, "state")];
    table.add({text_of(incident, "id"), text_of(incident, "node"), text_of(incident, "opened"),
               text_of(incident, "openedFor"), text_of(incident, "state"),
               text_of(incident, "reason"), pods_of(member(incident, "counts")),
               next_look(text_of(incident, "nextLook"), now), text_of(incident, "text")});
  }
  std::vector<fence::IncidentRecord> others;
  for (const fence::IncidentRecord& record : status.open) {
    if (!known.contains(record.id.text())) {
      others.push_back(record);
    }
  }
  std::string line =
      std::to_string(std::max<std::size_t>(number(situation, "openIncidents"), told.size()) +
                     others.size()) +
      " open";
  for (const auto& [state, count] : states) {
    line += ", " + std::to_string(count) + " " + escaped(state, 64);
  }
  if (situation.is_null() && !status.knows(ClusterStatus::Part::Incidents)) {
    line = kUnread;
  }
  return "INCIDENTS   " + line + "\n" + table.text("  ") + incidents_table(others, "  ");
}

}  // namespace

const json& ClusterStatus::situation() const {
  return member(report, "situation");
}

bool ClusterStatus::is_led(WallTime now) const {
  return leader && !leader->holder.empty() && leader->renewed &&
         now - *leader->renewed <= leader->term;
}

Result<ClusterStatus::Leader> leader_of(const json& lease) {
  const auto read = kube::decode_lease(lease);
  if (!read) {
    return failure(read.error());
  }
  return ClusterStatus::Leader{.holder = read->record.holder,
                               .renewed = read->record.renewed,
                               .term = read->record.duration,
                               .transitions = read->record.transitions};
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

// What those say that watch the same machines from other nodes.
std::string other_replicas_line(const json& told) {
  const std::uint64_t asked = number(told, "asked");
  if (asked == 0) {
    return "  no other replica can be asked what it hears\n";
  }
  std::string text = "  other replicas that are asked what they hear: " + std::to_string(asked);
  for (const auto& [key, words] :
       {std::pair("failing", " without an answer as it should be"),
        std::pair("confirmSilent", " silent machines are confirmed"),
        std::pair("hearSilent", " machines that are silent to the leader are heard by another")}) {
    if (const std::uint64_t count = number(told, key); count > 0) {
      text += ", " + std::to_string(count) + words;
    }
  }
  return text + "\n";
}

std::optional<cluster::Kernel> kernel_of(const std::string& word) {
  using cluster::Kernel;
  for (const Kernel kernel :
       {Kernel::Answers, Kernel::Unsure, Kernel::Silent, Kernel::NotObservable}) {
    if (cluster::to_string(kernel) == word) {
      return kernel;
    }
  }
  return std::nullopt;
}

// Machines that did not answer at some time in the last ten minutes.
std::string machine_lines(const json& detection, WallTime now) {
  TextTable table({"MACHINE", "STATE", "SINCE", "LAST SIGN", "LAST TEN MINUTES"});
  for (const json& machine : list_of(detection, "machines")) {
    std::vector<cluster::MachineHistory::Change> changes;
    for (const json& change : list_of(machine, "changes")) {
      const auto at = parse_rfc3339(text_of(change, "at"));
      const auto kernel = kernel_of(text_of(change, "kernel"));
      if (at && kernel) {
        changes.push_back({.at = *at, .kernel = *kernel});
      }
    }
    if (changes.empty()) {
      continue;
    }
    const auto confirmed = machine.find("confirmed");
    const bool is_confirmed = confirmed != machine.end() && *confirmed == true;
    const auto sign = parse_rfc3339(text_of(machine, "lastSign"));
    table.add({text_of(machine, "node"),
               std::string(cluster::to_string(changes.back().kernel)) +
                   (is_confirmed ? ", confirmed" : ""),
               ago(changes.back().at, now), sign ? ago(*sign, now) : std::string(),
               strip_of(changes, now)});
  }
  const std::string rows = table.text("  ");
  if (rows.empty()) {
    return "";
  }
  const std::uint64_t more = number(detection, "machinesLeftOut");
  return rows + (more > 0 ? "  and " + std::to_string(more) + " more\n" : "") +
         "  ten seconds a sign: . answers, ? not known yet, x silent, - nobody can tell\n";
}

// With how often it would have been wrong to act on a silence of so many seconds.
std::string detection_lines(const json& detection, WallTime now) {
  const auto since = parse_rfc3339(text_of(detection, "since"));
  if (!since) {
    return "";  // machines are not watched, or nobody tells
  }
  const std::uint64_t answers = number(detection, "answers");
  std::string text = "MACHINES    " + std::to_string(answers) + " answer";
  for (const auto& [key, word] : {std::pair("silent", "silent"), std::pair("unsure", "unsure"),
                                  std::pair("notObservable", "not observable")}) {
    if (const std::uint64_t count = number(detection, key); count > 0) {
      text += ", " + std::to_string(count) + " " + word;
    }
  }
  using TenthOfDay = std::chrono::duration<std::uint64_t, std::ratio<8640>>;
  const std::uint64_t tenths =
      std::chrono::duration_cast<TenthOfDay>(std::max<Duration>(now - *since, {})).count() *
      answers;
  text += "\n  in " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
          " node-days so many were silent for so long and had not been restarted:";
  for (const Duration age : cluster::Silences::kAges) {
    const std::string word = format_duration(age);
    text += " " + word + ": " +
            std::to_string(number(member(detection, "silencesOf"), word.c_str())) + ",";
  }
  text.back() = '\n';
  return text + other_replicas_line(member(detection, "otherReplicas")) +
         machine_lines(detection, now);
}

// As the leader has asked them.
std::string fencers_lines(const json& fencers) {
  if (fencers.is_null()) {
    return "";  // none is bound, or nobody tells
  }
  const fence::FencerCounts counts = {.works = number(fencers, "works"),
                                      .broken = number(fencers, "broken"),
                                      .none = number(fencers, "none")};
  TextTable table({"NODE", "BROKEN SINCE", "WHY"});
  for (const json& node : list_of(fencers, "nodes")) {
    table.add({text_of(node, "node"), text_of(node, "since"), text_of(node, "why")});
  }
  const std::uint64_t more = number(fencers, "nodesLeftOut");
  return "FENCERS     " +
         (counts.all() == 0 ? "no node was asked about yet" : "nodes: " + counts.text()) + "\n" +
         table.text("  ") + (more > 0 ? "  and " + std::to_string(more) + " more\n" : "");
}

std::string status_text(const ClusterStatus& status, WallTime now) {
  std::string text = "LEADER      " + leader_line(status, now) + "\n";
  const std::string mode = text_of(status.report, "mode");
  text += "MODE        " +
          (mode.empty() ? "unknown" : mode + ", set by " + text_of(status.report, "modeSetBy")) +
          "\n";
  text += state_lines(status);
  text += "POLICIES    " + reload_line(status) + "\n";
  for (const json& fault : list_of(status.report, "faults")) {
    text +=
        "  fault: " + escaped(fault.is_string() ? fault.get<std::string>() : fault.dump()) + "\n";
  }
  text += policies_table(status.report);
  text += brake_lines(status);
  text += detection_lines(member(status.situation(), "detection"), now);
  text += fencers_lines(member(status.situation(), "fencers"));
  text += "NODES       " + nodes_line(status) + "\n";
  TextTable nodes({"NODE", "READY", "SINCE", "FENCED"});
  for (const ClusterStatus::Node& node : status.down) {
    nodes.add({node.name, node.ready, node.since, node.fenced ? "yes" : "no"});
  }
  text += nodes.text("  ");
  return text + incidents_lines(status, now);
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
  std::map<std::string, ordered_json> incidents;
  for (const fence::IncidentRecord& record : status.open) {
    incidents[record.id.text()] = {{"id", record.id.text()},
                                   {"node", record.node.text()},
                                   {"opened", format_rfc3339(record.opened)},
                                   {"steps", record.steps.size()}};
  }
  for (const json& told : list_of(status.situation(), "incidents")) {
    incidents[text_of(told, "id")].update(ordered_json(told));
  }
  ordered_json open = ordered_json::array();
  for (auto& [id, incident] : incidents) {
    open.push_back(std::move(incident));
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
          {"openIncidents", if_known(ClusterStatus::Part::Incidents, std::move(open))},
          {"notes", status.notes}};
}

}  // namespace moonfence::app
