#include "fence/verify/replacement.h"

#include <algorithm>
#include <charconv>

#include "kube/text/json.h"
#include "policy/input/pod_facts.h"

namespace moonfence::fence {

using audit::Reason;
using kube::Fields;
using nlohmann::json;

namespace {

constexpr std::size_t kLongestText = 512;  // of what somebody else wrote

template <class Each>
void for_each_of(Fields& fields, Fields::Path path, Each each) {
  if (const json* list = fields.array(path)) {
    for (const json& item : *list) {
      if (item.is_object()) {
        Fields part(item);
        each(part);
      }
    }
  }
}

std::string joined(const std::string& reason, const std::string& message) {
  return (message.empty() ? reason : reason + ": " + message).substr(0, kLongestText);
}

void read_conditions(Fields& status, NamespacePod& sight) {
  for_each_of(status, {"status", "conditions"}, [&sight](Fields& condition) {
    const std::string type = condition.string({"type"});
    const std::string state = condition.string({"status"});
    if (type == "Ready" && state == "True") {
      sight.ready_since = condition.time({"lastTransitionTime"}).value_or(WallTime{});
    } else if (type == "PodScheduled" && state != "True") {
      sight.unscheduled = joined(condition.string({"reason"}), condition.string({"message"}));
    }
  });
}

void read_containers(Fields& status, NamespacePod& sight) {
  for (const std::string_view list : {"initContainerStatuses", "containerStatuses"}) {
    for_each_of(status, {"status", list}, [&sight](Fields& container) {
      const json* waiting = container.object({"state", "waiting"});
      sight.begun = sight.begun || container.object({"state", "running"}) != nullptr ||
                    container.object({"state", "terminated"}) != nullptr ||
                    container.object({"lastState", "terminated"}) != nullptr;
      if (waiting != nullptr && sight.waiting.empty()) {
        Fields words(*waiting);
        sight.waiting = joined(words.string({"reason"}), words.string({"message"}));
      }
    });
  }
}

}  // namespace

NamespacePod namespace_pod(const kube::Pod& pod) {
  NamespacePod sight;
  sight.ref = pod.ref;
  sight.uid = pod.uid;
  sight.node = pod.node;
  sight.terminating = pod.deletion_timestamp.has_value();
  sight.failed = pod.phase == "Failed";
  if (const kube::OwnerReference* owner = pod.controller()) {
    sight.owner = owner->uid;
  }
  if (pod.raw == nullptr) {
    return sight;
  }
  Fields fields(*pod.raw);
  sight.created = fields.time({"metadata", "creationTimestamp"});
  read_conditions(fields, sight);
  read_containers(fields, sight);
  if (pod.phase == "Succeeded" && !sight.ready_since) {
    sight.ready_since = WallTime{};
  }
  sight.has_claims = !policy::claims_of(*pod.raw).empty();
  if (const json* finalizers = fields.array({"metadata", "finalizers"})) {
    for (const json& finalizer : *finalizers) {
      if (finalizer.is_string() && sight.finalizers.size() < kLongestText) {
        sight.finalizers += sight.finalizers.empty() ? "" : ", ";
        sight.finalizers += finalizer.get_ref<const std::string&>().substr(0, kLongestText);
      }
    }
  }
  return sight;
}

std::string_view readable_collection(const kube::OwnerReference& owner) {
  if (owner.api_version == "apps/v1" && owner.kind == "StatefulSet") {
    return "statefulsets";
  }
  if (owner.api_version == "apps/v1" && owner.kind == "ReplicaSet") {
    return "replicasets";
  }
  return owner.api_version == "batch/v1" && owner.kind == "Job" ? "jobs" : "";
}

OwnerSight owner_sight_of(const json& object, const Uid& expected) {
  Fields fields(object);
  OwnerSight sight;
  sight.gone = fields.string({"metadata", "uid"}) != expected.text() ||
               fields.time({"metadata", "deletionTimestamp"}).has_value() ||
               fields.time({"status", "completionTime"}).has_value();
  // Absent means one, but of a Job, which counts otherwise.
  if (fields.string({"kind"}) != "Job") {
    sight.replicas = fields.integer({"spec", "replicas"}, 1);
  }
  sight.first = fields.integer({"spec", "ordinals", "start"});
  for_each_of(fields, {"status", "conditions"}, [&sight](Fields& condition) {
    sight.gone = sight.gone ||
                 (condition.string({"type"}) == "Failed" && condition.string({"status"}) == "True");
  });
  return sight;
}

bool wants_ordinal(const OwnerSight& owner, const std::string& pod) {
  const std::size_t dash = pod.rfind('-');
  std::int64_t ordinal = 0;
  if (!owner.replicas || dash == std::string::npos) {
    return true;
  }
  const char* end = pod.data() + pod.size();
  const auto read = std::from_chars(pod.data() + dash + 1, end, ordinal);
  return read.ec != std::errc() || read.ptr != end ||
         (ordinal >= owner.first && ordinal < owner.first + *owner.replicas);
}

StorageSight storage_sight_of(const json& events, const Uid& pod) {
  StorageSight sight;
  std::optional<WallTime> failed;
  std::optional<WallTime> attached;
  Fields list(events);
  for_each_of(list, {"items"}, [&](Fields& event) {
    if (event.string({"involvedObject", "uid"}) != pod.text()) {
      return;
    }
    const std::string reason = event.string({"reason"});
    std::optional<WallTime> at = event.time({"lastTimestamp"});
    at = std::max(at, event.time({"series", "lastObservedTime"}));
    at = std::max(at, event.time({"eventTime"}));
    if (reason == "FailedAttachVolume" && at >= failed) {
      failed = at;
      sight.failure = event.string({"message"}).substr(0, kLongestText);
    } else if (reason == "SuccessfulAttachVolume") {
      attached = std::max(attached, at);
      sight.attached = true;
    } else if (reason == "Pulling" || reason == "Pulled" || reason == "Created") {
      attached = WallTime::max();  // volumes are mounted before
      sight.attached = true;
    }
  });
  if (sight.attached && !sight.failure.empty()) {
    sight.attached = attached > failed;
    sight.failure = sight.attached ? std::string() : sight.failure;
  }
  return sight;
}

Obstacle obstacle_of(const NamespacePod& pod, const NodeName& failed, const StorageSight* storage) {
  if (pod.node.empty()) {
    return {.reason = Reason::ReplacementUnscheduled, .text = pod.unscheduled};
  }
  if (pod.node == failed) {
    return {.reason = Reason::ReplacementMisplaced};
  }
  const std::string place = "on " + pod.node.text();
  const bool attached = storage != nullptr && storage->attached;
  if (pod.has_claims && !pod.begun && !attached) {
    const bool refused = storage != nullptr && !storage->failure.empty();
    return {.reason = Reason::ReplacementUnattached,
            .text = place + ": " +
                    (refused ? storage->failure : "its volumes are not attached and mounted yet")};
  }
  return {.reason = Reason::ReplacementStarting,
          .text = pod.waiting.empty() ? place : place + ": " + pod.waiting};
}

}  // namespace moonfence::fence
