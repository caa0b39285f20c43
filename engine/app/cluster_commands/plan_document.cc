#include "app/cluster_commands/plan_text.h"

namespace moonfence::app {

using nlohmann::ordered_json;

namespace {

void add(ordered_json& into, const char* key, const std::string& value) {
  if (!value.empty()) {
    into[key] = value;
  }
}

ordered_json word_json(const Plan::Word& word) {
  ordered_json out = {{"reason", word.reason}};
  add(out, "policy", word.policy);
  add(out, "action", word.action);
  add(out, "attachment", word.attachment);
  add(out, "text", word.text);
  return out;
}

ordered_json calls_json(const std::vector<Plan::Call>& calls) {
  ordered_json out = ordered_json::array();
  for (const Plan::Call& call : calls) {
    ordered_json one = {
        {"action", call.what}, {"method", port::to_string(call.method)}, {"path", call.path}};
    add(one, "preconditionUID", call.uid);
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json opinion_json(const Plan::Opinion& opinion) {
  ordered_json out = word_json(opinion.word);
  add(out, "digest", opinion.word.digest);
  if (opinion.mode) {
    out["mode"] = policy::to_string(*opinion.mode);
  }
  ordered_json reads = ordered_json::object();
  for (const policy::FieldRead& read : opinion.reads) {
    reads[read.path] = read.value;
  }
  if (!reads.empty()) {
    out["read"] = std::move(reads);
  }
  return out;
}

ordered_json pod_json(const Plan::Pod& pod) {
  ordered_json opinions = ordered_json::array();
  for (const Plan::Opinion& opinion : pod.opinions) {
    opinions.push_back(opinion_json(opinion));
  }
  ordered_json refusals = ordered_json::array();
  for (const Plan::Word& word : pod.refusals) {
    refusals.push_back(word_json(word));
  }
  return {{"namespace", pod.space},
          {"name", pod.name},
          {"uid", pod.uid},
          {"verdict", to_string(pod.fate)},
          {"because", word_json(pod.because)},
          {"opinions", std::move(opinions)},
          {"refusals", std::move(refusals)},
          {"calls", calls_json(pod.calls)}};
}

std::string_view state_of(const Plan::Node& node) {
  switch (node.state) {
    case Engine::Supposed::Unknown:
      return "absent";
    case Engine::Supposed::Up:
      return "up";
    case Engine::Supposed::Fallen:
      return node.although_up ? "supposed-down" : "down";
    case Engine::Supposed::Deleted:
      return "deleted";
  }
  return "absent";
}

}  // namespace

ordered_json plan_document(const Plan& plan) {
  ordered_json nodes = ordered_json::array();
  for (const Plan::Node& node : plan.nodes) {
    ordered_json holds = ordered_json::array();
    for (const Plan::Word& word : node.holds) {
      holds.push_back(word_json(word));
    }
    ordered_json pods = ordered_json::array();
    for (const Plan::Pod& pod : node.pods) {
      pods.push_back(pod_json(pod));
    }
    ordered_json one = {{"name", node.name}, {"state", state_of(node)}};
    add(one, "incident", node.opened_for);
    if (node.open) {
      one["holdsFor"] = *node.open;
    }
    if (node.engine) {
      ordered_json engine = {{"state", node.engine->state}};
      add(engine, "reason", node.engine->reason);
      add(engine, "text", node.engine->text);
      one["engine"] = std::move(engine);
    }
    one["held"] = std::move(holds);
    ordered_json changes = ordered_json::array();
    for (const Plan::Word& word : node.changes) {
      changes.push_back(word_json(word));
    }
    if (!changes.empty()) {
      one["changes"] = std::move(changes);
    }
    one["complete"] = node.complete;
    one["calls"] = calls_json(node.calls);
    one["pods"] = std::move(pods);
    nodes.push_back(std::move(one));
  }
  ordered_json out = {{"kind", "Plan"}, {"acts", plan.acts()}};
  add(out, "frozen", plan.frozen);
  if (plan.hold_down > Duration::zero()) {
    out["holdDown"] = format_duration(std::chrono::round<std::chrono::seconds>(plan.hold_down));
  }
  out["nodes"] = std::move(nodes);
  out["notes"] = plan.notes;
  return out;
}

}  // namespace moonfence::app
