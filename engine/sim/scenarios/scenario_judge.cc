#include "sim/scenarios/scenario_judge.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "sim/ground/facts.h"
#include "sim/store/fields.h"
#include "sim/truth/pod_ledger.h"

namespace moonfence::sim {
namespace {

using State = StateCheck::State;
using Subject = StateCheck::Subject;
using What = EventCheck::What;

std::string path_of_pod(const Json& pod) {
  return text_field(pod, {"metadata", "namespace"}) + "/" + text_field(pod, {"metadata", "name"});
}

bool is_marked(const Json& object) {
  return object.contains(Json::json_pointer("/metadata/deletionTimestamp"));
}

Key key_of_path(const std::string& resource, const std::string& path) {
  const std::size_t slash = path.find('/');
  return {.resource = resource, .space = path.substr(0, slash), .name = path.substr(slash + 1)};
}

std::string ready_status(const Json& node) {
  const Json::json_pointer place("/status/conditions");
  if (node.contains(place)) {
    for (const Json& condition : node[place]) {
      if (condition.value("type", "") == "Ready") {
        return condition.value("status", "");
      }
    }
  }
  return "missing";
}

bool is_tainted(const Json& node) {
  const Json::json_pointer place("/spec/taints");
  return node.contains(place) &&
         std::any_of(node[place].begin(), node[place].end(),
                     [](const Json& taint) { return taint.value("effect", "") == "NoSchedule"; });
}

bool is_fenced(const Json& node) {
  const Json::json_pointer place("/spec/taints");
  return node.contains(place) &&
         std::any_of(node[place].begin(), node[place].end(), [](const Json& taint) {
           return taint.value("key", "") == "moonfence.io/fenced";
         });
}

bool is_inside(const Window& window, Duration at) {
  switch (window.kind) {
    case Window::Kind::Whole:
      return true;
    case Window::Kind::At:
    case Window::Kind::Within:
      return at <= window.to;
    case Window::Kind::After:
      return at >= window.from;
    case Window::Kind::Between:
      return at >= window.from && at <= window.to;
  }
  return true;
}

std::string describe_pod(const Json& pod) {
  const std::string node = text_field(pod, {"spec", "nodeName"});
  return (is_marked(pod) ? "Terminating" : text_field(pod, {"status", "phase"})) +
         (node.empty() ? " without a node" : " on " + node) + ", uid " +
         text_field(pod, {"metadata", "uid"});
}

bool is_about(const EventCheck& check, const Json& record) {
  const std::string subject = check.word.starts_with("incident_")
                                  ? record.value("node", "")
                                  : record.value("namespace", "") + "/" + record.value("pod", "");
  return record.value("kind", "") == check.word && matches_subject(check.subject, subject) &&
         (check.reason.empty() || record.value("reason", "") == check.reason) &&
         (check.policy.empty() || record.value("policy", "") == check.policy);
}

bool is_about(const EventCheck& check, const SeenRequest& request) {
  if (check.what == What::Delete) {
    return request.verb == "DELETE" && request.path.find("/pods/") != std::string::npos &&
           matches_subject(check.subject, request.subject);
  }
  return (check.word == "any" || request.verb == check.word) &&
         request.path.find(check.subject) != std::string::npos;
}

}  // namespace

ScenarioJudge::ScenarioJudge(const Scenario& scenario, const ObjectStore& store)
    : scenario_(scenario), store_(store), sights_(scenario.expectations.size()) {
  for (const Object& pod : store.list("pods")) {
    origins_[path_of_pod(*pod)] = {
        .uid = text_field(*pod, {"metadata", "uid"}),
        .node = text_field(*pod, {"spec", "nodeName"}),
        .workload = text_field(*pod, {"metadata", "namespace"}) + "/" + workload_of(*pod)};
  }
}

void ScenarioJudge::look(Duration now) {
  const bool changed = store_.version() != looked_at_;
  looked_at_ = store_.version();
  for (std::size_t i = 0; i < sights_.size(); ++i) {
    const Expectation& expectation = scenario_.expectations[i];
    const auto* check = std::get_if<StateCheck>(&expectation.check);
    Sight& sight = sights_[i];
    const Window& window = expectation.window;
    if (check == nullptr || sight.final || window.kind == Window::Kind::Whole) {
      continue;
    }
    if (now > window.to) {
      sight.final = true;  // the last look was the one that counts
      continue;
    }
    if (changed) {
      sight = look_at(*check);
      sight.final = sight.met && window.kind == Window::Kind::Within;
    }
  }
}

ScenarioJudge::Sight ScenarioJudge::look_at(const StateCheck& check) const {
  switch (check.subject) {
    case Subject::Pod:
      return look_at_pod(check);
    case Subject::Workload:
      return look_at_workload(check);
    case Subject::Node:
      return look_at_node(check);
    case Subject::Policy:
      return look_at_policy(check);
  }
  return {};
}

ScenarioJudge::Sight ScenarioJudge::look_at_pod(const StateCheck& check) const {
  const Object pod = store_.find(key_of_path("pods", check.name));
  const auto origin = origins_.find(check.name);
  if (origin == origins_.end() && check.state != State::Running) {
    return {.seen = "no such pod ran at the start"};
  }
  Sight sight{.seen = pod == nullptr ? "it is not there" : describe_pod(*pod)};
  const bool same = pod != nullptr && origin != origins_.end() &&
                    text_field(*pod, {"metadata", "uid"}) == origin->second.uid;
  switch (check.state) {
    case State::Survives:
      sight.met = same;
      break;
    case State::Deleted:
      sight.met = !same;
      break;
    case State::Replaced:
      sight.met = pod != nullptr && !same;
      break;
    case State::Terminating:
      sight.met = pod != nullptr && is_marked(*pod);
      break;
    default: {
      const std::string node = pod == nullptr ? "" : text_field(*pod, {"spec", "nodeName"});
      sight.met = pod != nullptr && is_pod_ready(*pod) &&
                  (check.node.empty() || node == check.node) &&
                  (!check.elsewhere || (origin != origins_.end() && node != origin->second.node));
      break;
    }
  }
  if (same) {
    sight.seen += ", as at the start";
  }
  return sight;
}

ScenarioJudge::Sight ScenarioJudge::look_at_workload(const StateCheck& check) const {
  int at_start = 0;
  int same = 0;
  std::set<std::string> nodes;
  for (const auto& [path, origin] : origins_) {
    if (origin.workload == check.name) {
      ++at_start;
      nodes.insert(origin.node);
      const Object pod = store_.find(key_of_path("pods", path));
      same += pod != nullptr && text_field(*pod, {"metadata", "uid"}) == origin.uid ? 1 : 0;
    }
  }
  int running = 0;
  int marked = 0;
  int all = 0;
  for (const Object& pod : store_.list("pods", check.name.substr(0, check.name.find('/')))) {
    if (text_field(*pod, {"metadata", "namespace"}) + "/" + workload_of(*pod) != check.name) {
      continue;
    }
    ++all;
    const std::string node = text_field(*pod, {"spec", "nodeName"});
    marked += is_marked(*pod) ? 1 : 0;
    running += is_pod_ready(*pod) && (check.node.empty() || node == check.node) &&
                       (!check.elsewhere || !nodes.contains(node))
                   ? 1
                   : 0;
  }
  Sight sight{.seen = std::to_string(all) + " pods, " + std::to_string(running) +
                      " running as wanted, " + std::to_string(marked) + " terminating; " +
                      std::to_string(same) + " of the " + std::to_string(at_start) +
                      " of the start are there"};
  switch (check.state) {
    case State::Survives:
      sight.met = at_start > 0 && same == at_start;
      break;
    case State::Deleted:
      sight.met = at_start > 0 && same == 0;
      break;
    case State::Replaced:
      sight.met = at_start > 0 && same == 0 && all >= at_start;
      break;
    case State::Terminating:
      sight.met = all > 0 && marked == all;
      break;
    default:
      sight.met = running == check.count.value_or(at_start);
      break;
  }
  return sight;
}

ScenarioJudge::Sight ScenarioJudge::look_at_node(const StateCheck& check) const {
  const Object node = store_.find({.resource = "nodes", .space = "", .name = check.name});
  if (node == nullptr) {
    return {.met = check.state == State::Gone, .seen = "it is not there"};
  }
  const std::string ready = ready_status(*node);
  const bool tainted = is_tainted(*node);
  const bool fenced = is_fenced(*node);
  const bool proven = condition_status(*node, "FencingEvidence") == "True";
  return {.met = (check.state == State::Ready && ready == "True") ||
                 (check.state == State::NotReady && ready != "True") ||
                 (check.state == State::Unknown && ready == "Unknown") ||
                 (check.state == State::Tainted && tainted) ||
                 (check.state == State::Fenced && fenced) ||
                 (check.state == State::Unfenced && !fenced) ||
                 (check.state == State::Proven && proven) ||
                 (check.state == State::Unproven && !proven),
          .seen = "Ready is " + ready + (tainted ? ", tainted" : ", not tainted") +
                  (fenced ? ", fenced" : "") + (proven ? ", proven" : "")};
}

// ConfigMap moonfence-status has a JSON text for each replica.
ScenarioJudge::Sight ScenarioJudge::look_at_policy(const StateCheck& check) const {
  const Object map =
      store_.find({.resource = "configmaps", .space = "moonfence", .name = "moonfence-status"});
  Sight sight{.seen = "no replica reports it"};
  if (map == nullptr || !map->contains("data")) {
    return sight;
  }
  for (const auto& [replica, text] : (*map)["data"].items()) {
    const Json report = Json::parse(text.get<std::string>(), nullptr, false);
    if (!report.is_object()) {
      continue;
    }
    for (const Json& policy : report.value("policies", Json::array())) {
      if (policy.value("name", "") == check.name) {
        sight.seen = "it is " + policy.value("state", "") + " for " + replica;
        sight.met = policy.value("state", "") == check.word;
      }
    }
  }
  return sight;
}

int ScenarioJudge::count_objects(const EventCheck& check) const {
  int count = 0;
  for (const Object& event : store_.list("events")) {
    const char* about = event->contains("regarding") ? "regarding" : "involvedObject";
    const std::string& name = text_field(*event, {about, "name"});
    const std::string full = text_field(*event, {about, "namespace"}) + "/" + name;
    const bool named = matches_subject(check.subject, name) || matches_subject(check.subject, full);
    count += text_field(*event, {"reason"}) == check.word && named ? 1 : 0;
  }
  return count;
}

// "" when it is met.
std::string ScenarioJudge::judge(const EventCheck& check, const Window& window,
                                 const Evidence& evidence) const {
  int count = 0;
  std::string times;
  const auto add = [&](Duration at) {
    if (is_inside(window, at)) {
      ++count;
      times += times.empty() ? " (at " : ", ";
      times += format_duration(std::chrono::floor<std::chrono::milliseconds>(at));
    }
  };
  switch (check.what) {
    case What::Record:
      for (const AuditRecord& record : evidence.records) {
        if (is_about(check, record.json)) {
          add(record.at);
        }
      }
      break;
    case What::Delete:
    case What::Request:
      for (const SeenRequest& request : evidence.requests) {
        if (is_about(check, request)) {
          add(request.at);
        }
      }
      break;
    case What::ApiEvent:
      count = count_objects(check);
      break;
    case What::Violation:
      for (const Violation& violation : evidence.outcome.violations) {
        if (violation.rule == check.word) {
          add(violation.at);
        }
      }
      break;
    case What::Writers:
      count = evidence.outcome.accepted_double_writers;
      break;
  }
  if (check.count ? count == *check.count : count > 0) {
    return {};
  }
  return "it happened " + std::to_string(count) + (count == 1 ? " time" : " times") + times +
         (times.empty() ? "" : ")");
}

std::string ScenarioJudge::judge(const AttemptsCheck& check, const Evidence& evidence) const {
  std::vector<Duration> seen;
  for (const SeenRequest& request : evidence.requests) {
    if (request.verb == "DELETE" && request.path.find("/pods/") != std::string::npos &&
        matches_subject(check.pod, request.subject)) {
      seen.push_back(request.at);
    }
  }
  std::string times;
  bool met = seen.size() == check.at.size();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Duration since = seen[i] - seen.front();
    times += times.empty() ? "" : ", ";
    times += format_duration(std::chrono::floor<std::chrono::milliseconds>(since));
    met = met && std::chrono::abs(since - check.at[i]) <= check.tolerance;
  }
  return met ? "" : "the attempts were at " + (times.empty() ? "no time" : times);
}

std::vector<std::string> ScenarioJudge::failures(const Evidence& evidence) {
  std::vector<std::string> found;
  const auto complain = [&](const Expectation& expectation, const std::string& seen) {
    found.push_back(scenario_.file);
    found.back() += ":" + std::to_string(expectation.line) + ": " + expectation.text + ": " + seen;
  };
  std::set<std::string> expected;
  for (std::size_t i = 0; i < sights_.size(); ++i) {
    const Expectation& expectation = scenario_.expectations[i];
    if (const auto* state = std::get_if<StateCheck>(&expectation.check)) {
      if (expectation.window.kind == Window::Kind::Whole) {
        sights_[i] = look_at(*state);
      }
      if (!sights_[i].met) {
        complain(expectation, sights_[i].seen);
      }
      continue;
    }
    const auto* event = std::get_if<EventCheck>(&expectation.check);
    if (event != nullptr && event->what == What::Violation) {
      expected.insert(event->word);
    }
    const std::string seen = event != nullptr
                                 ? judge(*event, expectation.window, evidence)
                                 : judge(std::get<AttemptsCheck>(expectation.check), evidence);
    if (!seen.empty()) {
      complain(expectation, seen);
    }
  }
  for (const Violation& violation : evidence.outcome.violations) {
    if (!expected.contains(violation.rule)) {
      found.push_back(scenario_.file);
      found.back() += ": violation of " + violation.rule + " at " + format_duration(violation.at) +
                      ": " + violation.text;
    }
  }
  return found;
}

}  // namespace moonfence::sim
