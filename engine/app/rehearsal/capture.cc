#include "app/rehearsal/capture.h"

#include <algorithm>
#include <array>
#include <utility>

#include "audit/reason.h"
#include "fence/rules/selection.h"
#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "policy/input/pod_facts.h"

namespace moonfence::app {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// What the binding gives to the policy, in the form of moonfence.yaml. What holds its default is
// left out, for the default may be what the next version changes.
ordered_json settings_of(const policy::Policy& policy) {
  ordered_json given = ordered_json::object();
  for (const auto& [key, setting] : policy.settings()) {
    const json& value = policy.settings_values().at(key);
    if (value != setting.otherwise) {
      given[key] = setting.type == policy::Setting::Type::Duration
                       ? ordered_json(format_duration(std::chrono::round<Duration>(
                             std::chrono::duration<double>(value.get<double>()))))
                       : ordered_json(value);
    }
  }
  return given;
}

ordered_json binding_json(const policy::Binding& binding) {
  ordered_json spaces = ordered_json::array();
  for (const Namespace& space : binding.scope.names()) {
    spaces.push_back(space.text());
  }
  if (binding.scope.is_everywhere()) {
    spaces.push_back("*");
  }
  ordered_json allow = ordered_json::array();
  for (const auto& [allowed, word] : {std::pair(binding.allow.bare_pods, "bare-pods"),
                                      std::pair(binding.allow.finished_pods, "finished-pods")}) {
    if (allowed) {
      allow.push_back(word);
    }
  }
  return {{"policy", binding.name},
          {"namespaces", std::move(spaces)},
          {"allow", std::move(allow)},
          {"settings", settings_of(*binding.policy)}};
}

ordered_json said_of(const Plan::Pod& pod) {
  ordered_json policies = ordered_json::object();
  for (const Plan::Opinion& opinion : pod.opinions) {
    const std::string verdict = verdict_of(opinion.word.reason);
    if (!opinion.word.policy.empty() && !verdict.empty()) {
      policies[opinion.word.policy] = {{"verdict", verdict}, {"reason", opinion.word.text}};
    }
  }
  return policies;
}

void add_unasked(const kube::Pod& pod, const policy::PolicySet& set, ordered_json& policies) {
  for (const policy::Binding& binding : set.bindings) {
    if (binding.policy != nullptr && binding.scope.covers(pod.ref.space) &&
        binding.policy->selects(pod.labels) && !fence::left_alone(pod, binding.allow) &&
        !policies.contains(binding.name)) {
      policies[binding.name] = {{"verdict", "not_asked"}, {"reason", ""}};
    }
  }
}

}  // namespace

json redacted(json object) {
  if (!object.is_object()) {
    return object;
  }
  if (const auto metadata = object.find("metadata");
      metadata != object.end() && metadata->is_object()) {
    metadata->erase("managedFields");
    if (const auto notes = metadata->find("annotations");
        notes != metadata->end() && notes->is_object()) {
      notes->erase("kubectl.kubernetes.io/last-applied-configuration");
    }
  }
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object()) {
    return object;
  }
  for (const char* const kind : {"containers", "initContainers", "ephemeralContainers"}) {
    const auto containers = spec->find(kind);
    if (containers == spec->end() || !containers->is_array()) {
      continue;
    }
    for (json& container : *containers) {
      const auto variables = container.is_object() ? container.find("env") : container.end();
      if (!container.is_object() || variables == container.end() || !variables->is_array()) {
        continue;
      }
      for (json& variable : *variables) {
        if (variable.is_object() && variable.contains("value")) {
          variable["value"] = "";
        }
      }
    }
  }
  return object;
}

std::vector<std::string> claims_named_by(const json& pod) {
  std::vector<std::string> claims;
  for (const auto& [volume, claim] : policy::claims_of(pod)) {
    claims.push_back(claim);
  }
  return claims;
}

std::string verdict_of(std::string_view reason) {
  using audit::Reason;
  constexpr std::array<std::pair<Reason, std::string_view>, 11> kWords = {{
      {Reason::PolicySkips, "skip"},
      {Reason::PolicyForbids, "forbid"},
      {Reason::PolicyHolds, "hold"},
      {Reason::ProofMissing, "hold"},
      {Reason::PolicyWaits, "wait"},
      {Reason::PolicyDeletesPod, "delete_pod"},
      {Reason::PolicyDeletesPodAndAttachments, "delete_pod_and_attachments"},
      {Reason::PolicyDeletesAttachments, "delete_attachments"},
      {Reason::NeedsUnread, "deferred"},
      {Reason::PolicyFailed, "error"},
      {Reason::PolicyFailing, "error"},
  }};
  for (const auto& [known, word] : kWords) {
    if (reason == audit::code(known)) {
      return std::string(word);
    }
  }
  return "";
}

ordered_json decisions_of(const Plan::Node& node, const policy::PolicySet& set, const json& objects,
                          WallTime at) {
  ordered_json bindings = ordered_json::array();
  for (const policy::Binding& binding : set.bindings) {
    if (binding.policy != nullptr) {
      bindings.push_back(binding_json(binding));
    }
  }
  ordered_json held = ordered_json::array();
  for (const Plan::Word& word : node.holds) {
    held.push_back({{"policy", word.policy}, {"reason", word.reason}, {"text", word.text}});
  }
  ordered_json pods = ordered_json::array();
  for (const json& object : objects.at("items")) {
    if (kube::text_at(object, "/kind") != "Pod" ||
        kube::text_at(object, "/spec/nodeName") != node.name) {
      continue;
    }
    const auto pod = kube::decode_pod(object);
    if (!pod) {
      continue;
    }
    const auto judged = std::find_if(node.pods.begin(), node.pods.end(), [&pod](const auto& one) {
      return one.space == pod->ref.space.text() && one.name == pod->ref.name;
    });
    ordered_json policies = judged == node.pods.end() ? ordered_json::object() : said_of(*judged);
    add_unasked(*pod, set, policies);
    if (!policies.empty()) {
      pods.push_back({{"namespace", pod->ref.space.text()},
                      {"name", pod->ref.name},
                      {"policies", std::move(policies)}});
    }
  }
  return {{"node", node.name},
          {"at", format_rfc3339(at)},
          {"bindings", std::move(bindings)},
          {"held", std::move(held)},
          {"pods", std::move(pods)}};
}

}  // namespace moonfence::app
