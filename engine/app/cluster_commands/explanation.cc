#include "app/cluster_commands/explanation.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "app/cluster_commands/next_step.h"
#include "app/cluster_commands/plan_text.h"
#include "audit/reason.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using Relation = Explained::Binding::Relation;
using Fate = Plan::Pod::Fate;

std::string names_of(const policy::NamespaceScope& scope) {
  if (scope.is_everywhere()) {
    return "*";
  }
  std::string names;
  for (const Namespace& name : scope.names()) {
    names += (names.empty() ? "" : ", ") + name.text();
  }
  return names;
}

// `policy noobaa said "…" (policy_deletes_pod)`
std::string said(const Plan::Word& word) {
  std::string text =
      word.policy.empty() ? std::string("the engine") : "policy " + escaped(word.policy, 64);
  text += ": " + word.reason;
  return word.text.empty() ? text : text + ", \"" + escaped(word.text) + "\"";
}

// Those of one kind, or all.
std::string calls_text(const std::vector<Plan::Call>& calls, std::string_view kind = {}) {
  std::string text;
  for (const Plan::Call& call : calls) {
    if (kind.empty() || call.what == kind) {
      text += "  " + std::string(port::to_string(call.method)) + " " + call.path +
              (call.uid.empty() ? "" : " if its UID is " + call.uid) + "\n";
    }
  }
  return text;
}

std::string head_of(const Explained& explained) {
  const Plan::Node& node = explained.node;
  std::string text =
      "Pod " + escaped(explained.pod.text(), 512) + " is bound to node " + escaped(node.name, 256);
  switch (node.state) {
    case Engine::Supposed::Unknown:
      text +=
          ", which does not exist. No open incident that a policy goes on with names it: "
          "Kubernetes "
          "collects its pods.\n";
      break;
    case Engine::Supposed::Deleted:
      text += ", which was deleted.\n";
      break;
    case Engine::Supposed::Up:
    case Engine::Supposed::Fallen:
      text += node.although_up ? ", which is up. If " + escaped(node.name, 256) + " died now:\n"
                               : ", which is down.\n";
  }
  if (explained.hold_down > Duration::zero()) {
    text += "The policy lets the node be down for " +
            format_duration(std::chrono::round<std::chrono::seconds>(explained.hold_down)) +
            " first.\n";
  }
  return text;
}

bool any_is(Relation relation, const Explained& explained) {
  return std::any_of(explained.bindings.begin(), explained.bindings.end(),
                     [relation](const auto& binding) { return binding.relation == relation; });
}

// The policy's word on the whole node that keeps the pod: nobody spoke of the pod, or only those
// who have nothing against it.
const Plan::Word* hold_of(const Explained& explained) {
  const bool asked = explained.planned.has_value();
  const bool decided =
      asked ? explained.planned->because.reason != audit::code(audit::Reason::PolicySkips)
            : explained.node.open.has_value();
  if (decided) {
    return nullptr;
  }
  for (const Explained::Binding& binding : explained.bindings) {
    if (!binding.held.empty() && (!asked || binding.mode == policy::Mode::Enforce)) {
      return &binding.held.front();
    }
  }
  return nullptr;
}

std::string fate_of(const Explained& explained) {
  if (const Plan::Word* const word = explained.retired_by()) {
    return "Its node would be put out of service first, and Kubernetes evicts it then, unless it "
           "tolerates that. " +
           said(*word) + ".\n";
  }
  if (const Plan::Word* const hold = hold_of(explained)) {
    return "It would be kept for now. " + said(*hold) + ".\n";
  }
  if (!explained.planned) {
    if (explained.node.open) {
      return "Nothing would be done yet: the incident holds, " + *explained.node.open + ".\n";
    }
    return any_is(Relation::Selects, explained)
               ? "It would be kept: no policy that selects it acts on this node.\n"
           : any_is(Relation::Broken, explained)
               ? "It would be kept: what would decide about it cannot be loaded.\n"
               : "It would be kept: no policy in force selects it.\n";
  }
  const Plan::Pod& pod = *explained.planned;
  switch (pod.fate) {
    case Fate::Deleted:
      return "It would be deleted. " + said(pod.because) + ".\n";
    case Fate::Detached:
      return "Its volume attachments would be deleted first. " + said(pod.because) + ".\n";
    case Fate::Refused:
      return "It would not be deleted, although a policy wants that. " + said(pod.because) + ".\n";
    case Fate::Waits:
      return "It would be kept for now. " + said(pod.because) + ".\n";
    case Fate::Kept:
      return "It would be kept. " + said(pod.because) + ".\n";
  }
  return {};
}

// What the engine that acts says now: a rehearsal has seen nothing before, and doubts nothing.
std::string engine_text(const Explained& explained) {
  std::string text;
  if (!explained.frozen.empty()) {
    text += "Nothing is done now. " + escaped(explained.frozen, 2048) + "\n";
  }
  if (const auto& engine = explained.node.engine) {
    text += "The engine says of the node: " + escaped(engine->state, 64) +
            (engine->reason.empty() ? "" : ", " + escaped(engine->reason, 64)) +
            (engine->text.empty() ? "" : ", \"" + escaped(engine->text) + "\"") + ".\n";
  }
  return text;
}

std::string relation_of(const Explained::Binding& binding) {
  switch (binding.relation) {
    case Relation::OtherNamespace:
      return "does not reach this namespace";
    case Relation::OtherLabels:
      return "does not select its labels; it wants " + escaped(binding.detail, 256);
    case Relation::Broken:
      return "cannot be loaded and holds every pod of its namespaces: " + escaped(binding.detail);
    case Relation::Selects:
      break;
  }
  std::string text = "selects it";
  for (const auto* words : {&binding.said, &binding.held}) {
    for (const Plan::Word& word : *words) {
      text += "; " + word.reason + (word.text.empty() ? "" : ", \"" + escaped(word.text) + "\"");
    }
  }
  return text;
}

// What the binding said of the pod, or else of the whole node. Pods that the engine leaves alone
// are no policy's concern.
void hear(Explained::Binding& binding, const Explained& explained) {
  if (binding.relation != Relation::Selects) {
    return;
  }
  if (explained.planned) {
    for (const Plan::Opinion& opinion : explained.planned->opinions) {
      const bool same_mode = !opinion.mode || *opinion.mode == binding.mode;
      if (opinion.word.policy == binding.name && same_mode) {
        binding.said.push_back(opinion.word);
      }
    }
  }
  const bool left_alone = explained.planned && explained.planned->because.policy.empty();
  for (const Plan::Word& word : explained.node.holds) {
    if (!left_alone && binding.said.empty() && word.policy == binding.name) {
      binding.held.push_back(word);
    }
  }
}

// A reason and what was said beside it.
struct Told {
  std::string code;
  std::string detail;
};

// What decides is first.
std::vector<Told> codes_of(const Explained& explained) {
  std::vector<Told> codes;
  if (const Plan::Word* const word = explained.retired_by()) {
    codes.push_back({word->reason, word->text});
  }
  if (const Plan::Word* const hold = hold_of(explained)) {
    codes.push_back({hold->reason, hold->text});
  }
  bool stays = true;
  if (explained.planned) {
    const Plan::Pod& pod = *explained.planned;
    stays = pod.fate != Fate::Deleted && pod.fate != Fate::Detached;
    if (stays) {
      codes.push_back({pod.because.reason, pod.because.text});
    }
    for (const Plan::Word& word : pod.refusals) {
      codes.push_back({word.reason, word.text});
    }
  }
  if (explained.node.open) {
    codes.push_back({*explained.node.open, ""});
  }
  for (const Explained::Binding& binding : explained.bindings) {
    for (const Plan::Word& word : binding.held) {
      if (stays) {
        codes.push_back({word.reason, word.text});
      }
    }
    if (binding.relation == Relation::Broken && !explained.planned) {
      codes.push_back({std::string(audit::code(audit::Reason::GuardBroken)), ""});
    }
  }
  return codes;
}

// What there is to be done, each only once.
std::string steps_of(const Explained& explained) {
  const std::vector<Told> codes = codes_of(explained);
  if (codes.empty() && !explained.planned) {
    return any_is(Relation::Selects, explained)
               ? "Next: see `trigger` and `source` of the policy that selects it: by them the node "
                 "is none that it acts on.\n"
               : "Next: bind a policy that selects it, in ConfigMap moonfence-policies; `moonfence "
                 "policy list` shows those that come with the engine, `moonfence status` whether "
                 "one was rejected.\n";
  }
  std::set<std::string> told;
  std::string text;
  for (const Told& each : codes) {
    const std::string step = each.code.empty() ? std::string() : next_step(each.code, each.detail);
    if (!each.code.empty() && told.insert(step).second) {
      text += "Next: " + step + "\n";
    }
  }
  return text;
}

}  // namespace

Explained explain(const PodRef& pod, const kube::Labels& labels, const policy::PolicySet& policies,
                  const Plan& plan) {
  Explained explained = {.pod = pod,
                         .bindings = {},
                         .node = {},
                         .planned = std::nullopt,
                         .hold_down = plan.hold_down,
                         .frozen = plan.frozen};
  if (!plan.nodes.empty()) {
    explained.node = plan.nodes.front();
    for (const Plan::Pod& planned : explained.node.pods) {
      if (planned.space == pod.space.text() && planned.name == pod.name) {
        explained.planned = planned;
      }
    }
  }
  for (const policy::Binding& binding : policies.bindings) {
    const bool covered = binding.scope.covers(pod.space);
    const bool broken = binding.policy == nullptr;
    const bool selected = !broken && binding.policy->selects(labels);
    explained.bindings.push_back({.name = binding.name,
                                  .namespaces = names_of(binding.scope),
                                  .mode = binding.mode,
                                  .relation = !covered   ? Relation::OtherNamespace
                                              : broken   ? Relation::Broken
                                              : selected ? Relation::Selects
                                                         : Relation::OtherLabels,
                                  .detail = broken     ? binding.error
                                            : selected ? ""
                                                       : binding.policy->label_selector()});
    hear(explained.bindings.back(), explained);
  }
  return explained;
}

const Plan::Word* Explained::retired_by() const {
  for (const Plan::Word& word : node.changes) {
    const bool concerns =
        std::any_of(bindings.begin(), bindings.end(), [&word](const Binding& binding) {
          return binding.relation == Relation::Selects && binding.mode == policy::Mode::Enforce &&
                 binding.name == word.policy;
        });
    if (concerns && !planned && word.reason == audit::code(audit::Reason::SetsOutOfService)) {
      return &word;
    }
  }
  return nullptr;
}

bool Explained::acts() const {
  return (planned && !planned->calls.empty()) || retired_by() != nullptr;
}

std::string explained_text(const Explained& explained) {
  std::string text = head_of(explained) + fate_of(explained) + engine_text(explained);
  if (explained.retired_by() != nullptr) {
    text += calls_text(explained.node.calls, "patch_node");
  }
  if (explained.planned) {
    text += calls_text(explained.planned->calls);
    for (const Plan::Word& word : explained.planned->refusals) {
      text += "Refused: " + said(word) +
              (word.attachment.empty() ? "" : " (attachment " + escaped(word.attachment) + ")") +
              ".\n";
    }
  }
  text += explained.bindings.empty() ? "No policy is in force.\n" : "Policies in force:\n";
  for (const Explained::Binding& binding : explained.bindings) {
    text += "  " + escaped(binding.name, 64) + " (" + std::string(policy::to_string(binding.mode)) +
            ", namespaces " + escaped(binding.namespaces) + ") " + relation_of(binding) + "\n";
  }
  return text + steps_of(explained);
}

nlohmann::ordered_json explained_document(const Explained& explained, const Plan& plan) {
  constexpr std::array kWords = {"selects", "other-namespace", "other-labels", "broken"};
  nlohmann::ordered_json bindings = nlohmann::ordered_json::array();
  for (const Explained::Binding& binding : explained.bindings) {
    nlohmann::ordered_json one = {
        {"policy", binding.name},
        {"mode", policy::to_string(binding.mode)},
        {"namespaces", binding.namespaces},
        {"relation", kWords.at(static_cast<std::size_t>(binding.relation))}};
    if (!binding.detail.empty()) {
      one["detail"] = binding.detail;
    }
    bindings.push_back(std::move(one));
  }
  Plan narrowed = plan;
  for (Plan::Node& node : narrowed.nodes) {
    std::erase_if(node.pods, [&](const Plan::Pod& pod) {
      return pod.space != explained.pod.space.text() || pod.name != explained.pod.name;
    });
  }
  nlohmann::ordered_json document = plan_document(narrowed);
  nlohmann::ordered_json out = {{"kind", "Explanation"},
                                {"namespace", explained.pod.space.text()},
                                {"pod", explained.pod.name},
                                {"acts", explained.acts()}};
  if (!explained.frozen.empty()) {
    out["frozen"] = explained.frozen;
  }
  out["policies"] = std::move(bindings);
  out["nodes"] = std::move(document["nodes"]);
  out["notes"] = std::move(document["notes"]);
  return out;
}

}  // namespace moonfence::app
