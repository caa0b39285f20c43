#include "sim/truth/truth.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kSpace = "moonfence";
constexpr std::string_view kPolicies = "moonfence-policies";

// "" when there is no such condition.
std::string ready_status(const Json& node) {
  const Json* conditions = find_field(node, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return {};
  }
  for (const Json& condition : *conditions) {
    if (text_field(condition, {"type"}) == "Ready") {
      return text_field(condition, {"status"});
    }
  }
  return {};
}

bool keeps_off(const Json& node) {
  constexpr std::array<std::string_view, 5> kKeys = {
      "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready",
      "node.kubernetes.io/out-of-service", "node.kubernetes.io/unschedulable",
      "moonfence.io/fenced"};
  const Json* taints = find_field(node, {"spec", "taints"});
  return taints != nullptr && taints->is_array() &&
         std::any_of(taints->begin(), taints->end(), [&kKeys](const Json& taint) {
           return text_field(taint, {"effect"}) == "NoSchedule" &&
                  std::find(kKeys.begin(), kKeys.end(), text_field(taint, {"key"})) != kKeys.end();
         });
}

std::string controller_kind(const Json& pod) {
  const Json* owners = find_field(pod, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) {
    return {};
  }
  for (const Json& owner : *owners) {
    const Json* controller = find_field(owner, {"controller"});
    if (controller != nullptr && *controller == true) {
      return text_field(owner, {"kind"});
    }
  }
  return {};
}

}  // namespace

const NodeTruth* Truth::node(const std::string& uid) const {
  const auto found = nodes_.find(uid);
  return found == nodes_.end() ? nullptr : &found->second;
}

const LeaseTruth* Truth::lease(const std::string& node) const {
  const auto found = leases_.find(node);
  return found == leases_.end() ? nullptr : &found->second;
}

bool LeaseTruth::changed_between(Moment after, Moment before) const {
  const auto first = std::upper_bound(changes.begin(), changes.end(), after);
  return first != changes.end() && *first < before;
}

const PodTruth* Truth::pod(const std::string& uid) const {
  const auto found = pods_.find(uid);
  return found == pods_.end() ? nullptr : &found->second;
}

void Truth::on_change(const Change& change) {
  if (change.restores && restored_at_ != time_.now) {
    restored_at_ = time_.now;
    ++restores_;
  }
  if (change.key.resource == "nodes") {
    on_node(change);
  } else if (change.key.resource == "leases" && change.key.space == "kube-node-lease") {
    on_lease(change);
  } else if (change.key.resource == "pods") {
    on_pod(change);
  } else if (change.key.resource == "configmaps" && change.key.space == kSpace &&
             change.key.name == kPolicies) {
    on_policies(change);
  }
}

void Truth::on_node(const Change& change) {
  const Json& object = *change.after;
  const auto [entry, is_new] = nodes_.try_emplace(text_field(object, {"metadata", "uid"}));
  NodeTruth& node = entry->second;
  const bool exists = change.type != ChangeType::Deleted;
  if (is_new) {
    node.name = change.key.name;
    node.made = time_.now;
    node.silent_before = left_silent_[node.name];
  }
  if (!exists) {
    left_silent_[node.name] =
        node.silent.holds ? time_.now - node.silent.changed : Duration::zero();
  }
  node.object = change.after;
  const std::string ready = ready_status(object);
  node.down.set(exists && ready != "True", time_.now);
  node.silent.set(exists && !ready.empty() && ready != "True" && ready != "False", time_.now);
  node.tainted.set(exists && keeps_off(object), time_.now);
  node.exists.set(exists, time_.now);
}

void Truth::on_lease(const Change& change) {
  LeaseTruth& lease = leases_[change.key.name];
  lease.exists = change.type != ChangeType::Deleted;
  const Json* duration = find_field(*change.after, {"spec", "leaseDurationSeconds"});
  if (duration != nullptr && duration->is_number_integer()) {
    lease.duration = std::chrono::seconds(duration->get<std::int64_t>());
  }
  if (!change.restores) {  // else no kubelet has spoken
    lease.changes.push_back(time_.now);
  }
}

void Truth::on_pod(const Change& change) {
  const Json& object = *change.after;
  const auto [entry, is_new] = pods_.try_emplace(text_field(object, {"metadata", "uid"}));
  PodTruth& pod = entry->second;
  if (is_new) {
    pod.space = change.key.space;
    pod.name = change.key.name;
    pod.controller = controller_kind(object);
    pod.mirror =
        find_field(object, {"metadata", "annotations", "kubernetes.io/config.mirror"}) != nullptr;
  }
  if (change.restores && change.type != ChangeType::Deleted) {
    pod.gone.reset();
    pod.marked.reset();
    pod.deleted_by.clear();
  }
  const Json* labels = find_field(object, {"metadata", "labels"});
  pod.labels = labels == nullptr ? Json::object() : *labels;
  const std::string& node = text_field(object, {"spec", "nodeName"});
  if (pod.node != node) {
    pod.node = node;
    pod.bound = time_.now;
  }
  pod.finished.set(has_ended_by_itself(object), time_.now);
  pod.finalized = has_content(object, {"metadata", "finalizers"});
  const bool is_marked = !text_field(object, {"metadata", "deletionTimestamp"}).empty();
  if ((is_marked || change.type == ChangeType::Deleted) && pod.deleted_by.empty()) {
    pod.deleted_by = change.actor;
  }
  if (is_marked && !pod.marked) {
    pod.marked = time_.now;
  }
  if (change.type == ChangeType::Deleted) {
    pod.gone = time_.now;
    pod.deleted_by = change.actor;
  }
}

void Truth::on_policies(const Change& change) {
  std::map<std::string, std::string> data;
  const Json* texts = find_field(*change.after, {"data"});
  if (change.type != ChangeType::Deleted && texts != nullptr && texts->is_object()) {
    for (const auto& [key, value] : texts->items()) {
      if (value.is_string()) {
        data.emplace(key, value.get<std::string>());
      }
    }
  }
  const auto bindings = data.find("moonfence.yaml");
  policy_edits_.push_back({.restores = restores_,
                           .version = change.version,
                           .at = time_.now,
                           .reach = read_reach(data),
                           .lowered = is_lowered(data),
                           .bindings = bindings == data.end() ? "" : bindings->second,
                           .deleted = change.type == ChangeType::Deleted});
}

}  // namespace moonfence::sim
