#include "policy/cases/fixture_patch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "kube/text/json.h"
#include "policy/cases/test_file.h"
#include "policy/input/node_conditions.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

enum class Form { Text, Integer, Time, Texts, Flag };

struct Stored {
  std::string_view name;   // as the policy reads it
  std::string_view place;  // JSON pointer in the object
  Form form;
};

constexpr std::array<Stored, 12> kPodFields = {{
    {"name", "/metadata/name", Form::Text},
    {"namespace", "/metadata/namespace", Form::Text},
    {"uid", "/metadata/uid", Form::Text},
    {"phase", "/status/phase", Form::Text},
    {"reason", "/status/reason", Form::Text},
    {"node_name", "/spec/nodeName", Form::Text},
    {"priority", "/spec/priority", Form::Integer},
    {"grace_period", "/metadata/deletionGracePeriodSeconds", Form::Integer},
    {"created_at", "/metadata/creationTimestamp", Form::Time},
    {"deletion_timestamp", "/metadata/deletionTimestamp", Form::Time},
    {"labels", "/metadata/labels", Form::Texts},
    {"annotations", "/metadata/annotations", Form::Texts},
}};
constexpr std::array<Stored, 12> kNodeFields = {{
    {"name", "/metadata/name", Form::Text},
    {"uid", "/metadata/uid", Form::Text},
    {"created_at", "/metadata/creationTimestamp", Form::Time},
    {"provider_id", "/spec/providerID", Form::Text},
    {"system_uuid", "/status/nodeInfo/systemUUID", Form::Text},
    {"machine_id", "/status/nodeInfo/machineID", Form::Text},
    {"boot_id", "/status/nodeInfo/bootID", Form::Text},
    {"zone", "/metadata/labels/topology.kubernetes.io~1zone", Form::Text},
    {"region", "/metadata/labels/topology.kubernetes.io~1region", Form::Text},
    {"unschedulable", "/spec/unschedulable", Form::Flag},
    {"labels", "/metadata/labels", Form::Texts},
    {"annotations", "/metadata/annotations", Form::Texts},
}};
// What is made of other fields: which to patch instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kDerived = {{
    {"display_status", "pod.phase, pod.reason or pod.terminating"},
    {"is_daemonset", "pod.owner.kind"},
    {"volume_kinds", "pod.raw.spec.volumes"},
    {"fetched", "the case's responses"},
}};

bool removes(const json& value) {
  return value.is_boolean() && !value.get<bool>();
}

std::string shown(const json& value) {
  return escaped(kube::to_text(value), 64);
}

Result<json> formed(const InputPath& path, const json& value, Form form) {
  switch (form) {
    case Form::Text:
      return value.is_string() ? Result<json>(value)
                               : bad_patch(path, shown(value) + " is no text", "");
    case Form::Integer:
      return value.is_number_integer() ? Result<json>(value)
                                       : bad_patch(path, shown(value) + " is no integer", "");
    case Form::Flag:
      return value.is_boolean() ? Result<json>(value)
                                : bad_patch(path, shown(value) + " is neither true nor false", "");
    case Form::Time: {
      const auto time = time_of(value);
      return time ? Result<json>(format_rfc3339(*time))
                  : bad_patch(path, shown(value) + " is no time",
                              "write '2026-11-20T10:07:00Z' or Unix seconds; false removes it");
    }
    case Form::Texts:
      if (value.is_object() && std::all_of(value.begin(), value.end(),
                                           [](const json& text) { return text.is_string(); })) {
        return value;
      }
      return bad_patch(path, shown(value) + " is no table of texts", "");
  }
  return value;
}

// The object at a pointer's parent, made when it is missing.
json& parent_of(json& object, const json::json_pointer& place) {
  json* at = &object;
  std::vector<std::string> keys;
  for (json::json_pointer rest = place.parent_pointer(); !rest.empty(); rest.pop_back()) {
    keys.push_back(rest.back());
  }
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    json& next = (*at)[*key];
    if (!next.is_object()) {
      next = json::object();
    }
    at = &next;
  }
  return *at;
}

Result<void> store(json& object, const Stored& field, const InputPath& path, const json& value) {
  const json::json_pointer place{std::string(field.place)};
  json& parent = parent_of(object, place);
  if (field.form == Form::Texts && path.steps.size() == 3) {
    json& map = parent[place.back()];
    if (!map.is_object()) {
      map = json::object();
    }
    if (removes(value)) {
      map.erase(path.steps[2].name);
      return {};
    }
    if (!value.is_string()) {
      return bad_patch(path, shown(value) + " is no text", "false removes the key");
    }
    map[path.steps[2].name] = value;
    return {};
  }
  if (path.steps.size() != 2) {
    return bad_patch(path, std::string(field.name) + " has no parts",
                     "patch " + path.root() + "." + std::string(field.name));
  }
  if (removes(value) && field.form != Form::Flag) {
    parent.erase(place.back());
    return {};
  }
  auto good = formed(path, value, field.form);
  if (!good) {
    return failure(std::move(good.error()));
  }
  parent[place.back()] = std::move(*good);
  return {};
}

// pod.raw.spec.volumes[1].name: any JSON. A position one past the end appends.
Result<void> store_raw(json& object, const InputPath& path, const json& value) {
  if (path.steps.size() < 3) {
    return bad_patch(path, "it names the whole object", "patch a field of it");
  }
  json* at = &object;
  for (std::size_t i = 2; i < path.steps.size(); ++i) {
    const PathStep& step = path.steps[i];
    const bool last = i + 1 == path.steps.size();
    if (step.name.empty()) {
      if (at->is_null()) {
        *at = json::array();
      }
      if (!at->is_array() || step.position > at->size() + 1) {
        return bad_patch(path, "there is no position " + std::to_string(step.position), "");
      }
      if (last && removes(value) && step.position <= at->size()) {
        at->erase(step.position - 1);
        return {};
      }
      at = &(*at)[step.position - 1];
    } else {
      if (at->is_null()) {
        *at = json::object();
      }
      if (!at->is_object()) {
        return bad_patch(path, "'" + escaped(step.name, 64) + "' is no field of what stands there",
                         "");
      }
      if (last && value.is_null()) {
        at->erase(step.name);
        return {};
      }
      at = &(*at)[step.name];
    }
  }
  *at = value;
  return {};
}

// The object below a key, whatever stood there.
json& object_below(json& object, const std::string& key) {
  json& value = object[key];
  if (!value.is_object()) {
    value = json::object();
  }
  return value;
}

json& condition_of(json& object, const std::string& type) {
  json& conditions = object_below(object, "status")["conditions"];
  if (!conditions.is_array()) {
    conditions = json::array();
  }
  for (json& condition : conditions) {
    if (text_of(member(&condition, "type")) == type) {
      return condition;
    }
  }
  conditions.push_back({{"type", type}, {"status", "Unknown"}});
  return conditions.back();
}

void remove_condition(json& object, std::string_view type) {
  (void)condition_of(object, std::string(type));
  json& conditions = object["status"]["conditions"];
  json kept = json::array();
  for (const json& condition : conditions) {
    if (text_of(member(&condition, "type")) != type) {
      kept.push_back(condition);
    }
  }
  conditions = std::move(kept);
}

Result<void> patch_owner(json& pod, const InputPath& path, const json& value) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kParts = {
      {{"kind", "kind"}, {"name", "name"}, {"uid", "uid"}, {"api_version", "apiVersion"}}};
  json& metadata = pod["metadata"];
  json& owners = metadata["ownerReferences"];
  if (!owners.is_array()) {
    owners = json::array();
  }
  if (path.steps.size() == 2) {
    if (!removes(value)) {
      return bad_patch(path, shown(value) + " is no owner",
                       "patch pod.owner.kind, .name, .uid or .api_version; false removes it");
    }
    metadata.erase("ownerReferences");
    return {};
  }
  std::vector<std::string_view> known;
  for (const auto& [part, key] : kParts) {
    known.push_back(part);
    if (path.steps.size() != 3 || path.name(2) != part) {
      continue;
    }
    if (!value.is_string()) {
      return bad_patch(path, shown(value) + " is no text", "");
    }
    json* controller = nullptr;
    for (json& owner : owners) {
      const json* flag = member(&owner, "controller");
      controller = flag != nullptr && flag->is_boolean() && *flag ? &owner : controller;
    }
    if (controller == nullptr) {
      owners.push_back({{"controller", true}, {"name", "owner"}, {"uid", "owner-uid"}});
      controller = &owners.back();
    }
    (*controller)[std::string(key)] = value;
    return {};
  }
  return bad_patch(path, "an owner has no such field" + did_you_mean(path.name(2), known), "");
}

Result<void> patch_pod_state(Scene& scene, const InputPath& path, const json& value) {
  if (!value.is_boolean()) {
    return bad_patch(path, shown(value) + " is neither true nor false", "");
  }
  const bool flag = value.get<bool>();
  json& metadata = scene.pod["metadata"];
  if (path.name(1) == "ready") {
    condition_of(scene.pod, "Ready")["status"] = flag ? "True" : "False";
  } else if (path.name(1) == "is_static") {
    json& annotations = object_below(metadata, "annotations");
    if (flag) {
      annotations["kubernetes.io/config.mirror"] = "patched";
    } else {
      annotations.erase("kubernetes.io/config.mirror");
    }
  } else if (!flag) {
    metadata.erase("deletionTimestamp");
    metadata.erase("deletionGracePeriodSeconds");
  } else if (member(&metadata, "deletionTimestamp") == nullptr) {
    return bad_patch(path, "a terminating pod has a deadline",
                     "patch pod.deletion_timestamp with a time instead");
  }
  return {};
}

Result<void> unknown_field(const InputPath& path, std::vector<std::string_view> known) {
  for (const auto& [name, instead] : kDerived) {
    if (path.root() == "pod" && path.name(1) == name) {
      return bad_patch(path, "it follows from other fields", "patch " + std::string(instead));
    }
  }
  return bad_patch(path,
                   "unknown field '" + escaped(path.name(1), 64) + "' of " + path.root() +
                       did_you_mean(path.name(1), known),
                   "");
}

Result<void> patch_pod(Scene& scene, const InputPath& path, const json& value) {
  const std::string_view field = path.name(1);
  if (field == "owner") {
    return patch_owner(scene.pod, path, value);
  }
  if (field == "raw") {
    return store_raw(scene.pod, path, value);
  }
  if (path.steps.size() == 2 &&
      (field == "ready" || field == "is_static" || field == "terminating")) {
    return patch_pod_state(scene, path, value);
  }
  std::vector<std::string_view> known = {"owner",      "ready",      "is_static", "terminating",
                                         "raw",        "volumes",    "siblings",  "placement",
                                         "root_owner", "owner_chain"};
  for (const Stored& stored : kPodFields) {
    if (stored.name == field) {
      return store(scene.pod, stored, path, value);
    }
    known.push_back(stored.name);
  }
  return unknown_field(path, std::move(known));
}

Result<void> patch_ready_status(Scene& scene, const InputPath& path, const json& value) {
  const std::string word = value.is_string() ? value.get<std::string>() : "";
  scene.node_facts.exists = word != "deleted";
  if (word == "missing") {
    remove_condition(scene.node, "Ready");
  } else if (word == "true" || word == "false" || word == "unknown") {
    condition_of(scene.node, "Ready")["status"] = word == "true"    ? "True"
                                                  : word == "false" ? "False"
                                                                    : "Unknown";
  } else if (word != "deleted") {
    return bad_patch(path, shown(value) + " is no such status",
                     "known are true, false, unknown, missing, deleted, as texts");
  }
  return {};
}

// node.evidence = { attested = true }, or node.evidence.attested = true.
Result<void> patch_evidence(Scene& scene, const InputPath& path, const json& value) {
  const bool one = path.steps.size() == 3;
  const json given = one ? json{{std::string(path.name(2)), value}} : value;
  EvidenceSet evidence = one ? scene.node_facts.evidence : EvidenceSet();
  for (const auto& [word, there] : given.items()) {
    const auto known = find_evidence(word);
    if (!known || !there.is_boolean()) {
      return bad_patch(path, shown(value) + " cannot stand there",
                       "known are " + evidence_words(all_evidence(), ", ") + ", true or false");
    }
    if (there.get<bool>()) {
      evidence.insert(*known);
    } else {
      evidence.remove(*known);
    }
  }
  scene.node_facts.evidence = evidence;
  return {};
}

// Lists of the object, as Kubernetes writes them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNodeLists = {
    {{"taints", "spec"}, {"conditions", "status"}, {"addresses", "status"}}};

// node.planned.Drained = true, false or "unknown", or a time: True since then.
Result<void> patch_planned(Scene& scene, const InputPath& path, const json& value) {
  const std::string type(path.name(2));
  if (path.steps.size() != 3 ||
      std::find(kPlannedTypes.begin(), kPlannedTypes.end(), type) == kPlannedTypes.end()) {
    return bad_patch(path, "it names no lifecycle condition" + did_you_mean(type, kPlannedTypes),
                     "patch node.planned.Drained, for example");
  }
  if (removes(value)) {
    remove_condition(scene.node, type);
    return {};
  }
  const auto since = time_of(value);
  const bool is_unknown = value == "unknown";
  if (!since && !is_unknown && value != true) {
    return bad_patch(path, shown(value) + " cannot stand there",
                     "write true, false, 'unknown', or since when it is true");
  }
  json& condition = condition_of(scene.node, type);
  condition["status"] = is_unknown ? "Unknown" : "True";
  if (since) {
    condition["lastTransitionTime"] = format_rfc3339(*since);
  }
  return {};
}

// What the engine knows beside the object.
Result<void> patch_seen(NodeFacts& facts, const InputPath& path, const json& value) {
  if (path.name(1) == "lease_age" && removes(value)) {
    facts.lease_age.reset();
    return {};
  }
  if (path.name(1) == "lease_age" && value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
      value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max()) {
    facts.lease_age = std::chrono::seconds(value.get<std::int64_t>());
    return {};
  }
  for (const Machine machine :
       {Machine::NotObservable, Machine::Answers, Machine::Unsure, Machine::Silent}) {
    if (path.name(1) == "machine" && value == to_string(machine)) {
      facts.machine = machine;
      return {};
    }
  }
  return bad_patch(path, shown(value) + " cannot stand there",
                   path.name(1) == "machine" ? "known are answers, unsure, silent, not_observable"
                                             : "write whole seconds; false: nobody has read it");
}

Result<void> patch_node(Scene& scene, const InputPath& path, const json& value) {
  const std::string_view field = path.name(1);
  if (field == "raw") {
    return store_raw(scene.node, path, value);
  }
  if (field == "ready_status") {
    return patch_ready_status(scene, path, value);
  }
  if (field == "evidence" && (path.steps.size() == 3 || value.is_object() || value.empty())) {
    return patch_evidence(scene, path, value);
  }
  if (field == "not_ready_since") {
    auto time = formed(path, value, Form::Time);
    if (!time) {
      return failure(std::move(time.error()));
    }
    condition_of(scene.node, "Ready")["lastTransitionTime"] = std::move(*time);
    return {};
  }
  if (field == "planned") {
    return patch_planned(scene, path, value);
  }
  if (path.steps.size() == 2 && (field == "lease_age" || field == "machine")) {
    return patch_seen(scene.node_facts, path, value);
  }
  for (const auto& [list, below] : kNodeLists) {
    if (field == list && path.steps.size() == 2 && (value.is_array() || value.empty())) {
      object_below(scene.node, std::string(below))[std::string(list)] =
          value.is_array() ? value : json::array();
      return {};
    }
  }
  if (field == "exists" && value.is_boolean()) {
    scene.node_facts.exists = value.get<bool>();
    return {};
  }
  if (field == "failures" && value.is_number_integer() && value.get<std::int64_t>() >= 1 &&
      value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max()) {
    scene.node_facts.failures = value.get<std::uint32_t>();
    return {};
  }
  std::vector<std::string_view> known = {"failures",   "exists",    "taints",
                                         "conditions", "addresses", "evidence",
                                         "lease_age",  "machine",   "not_ready_since"};
  if (std::find(known.begin(), known.end(), field) != known.end()) {
    return bad_patch(path, shown(value) + " cannot stand there", "");
  }
  known.insert(known.end(), {"raw", "ready_status", "planned"});
  for (const Stored& stored : kNodeFields) {
    if (stored.name == field) {
      return store(scene.node, stored, path, value);
    }
    known.push_back(stored.name);
  }
  return unknown_field(path, std::move(known));
}

}  // namespace

Failure bad_patch(const InputPath& path, const std::string& why, const std::string& hint) {
  return failure(Error::Kind::Invalid, "patch " + escaped(path.text, 128) + ": " + why, hint);
}

bool is_object_patch(const InputPath& path) {
  const std::string_view field = path.name(1);
  const bool is_fact = path.root() == "pod" &&
                       (field == "volumes" || field == "claims" || field == "siblings" ||
                        field == "placement" || field == "root_owner" || field == "owner_chain");
  return (path.root() == "pod" || path.root() == "node") && !is_fact;
}

Result<void> patch_object(Scene& scene, const InputPath& path, const json& value) {
  if (path.steps.size() < 2) {
    return bad_patch(path, "it names all of " + path.root(), "patch a field of it");
  }
  return path.root() == "pod" ? patch_pod(scene, path, value) : patch_node(scene, path, value);
}

}  // namespace moonfence::policy
