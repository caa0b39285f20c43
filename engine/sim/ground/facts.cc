#include "sim/ground/facts.h"

#include <algorithm>

namespace moonfence::sim {
namespace {

const std::string& nothing() {
  static const std::string empty;
  return empty;
}

}  // namespace

const Json& list_field(const Json& object, Path path) {
  static const Json empty = Json::array();
  const Json* value = find_field(object, path);
  return value != nullptr && value->is_array() ? *value : empty;
}

const std::string& name_of(const Json& object) {
  return text_field(object, {"metadata", "name"});
}

const std::string& space_of(const Json& object) {
  return text_field(object, {"metadata", "namespace"});
}

const std::string& uid_of(const Json& object) {
  return text_field(object, {"metadata", "uid"});
}

Key key_of(const std::string& resource, const Json& object) {
  return {.resource = resource, .space = space_of(object), .name = name_of(object)};
}

std::string path_of(const Json& object) {
  return space_of(object) + "/" + name_of(object);
}

bool is_terminating(const Json& object) {
  const Json* stamp = find_field(object, {"metadata", "deletionTimestamp"});
  return stamp != nullptr && !stamp->is_null();
}

const Json* controller_of(const Json& object) {
  const Json& owners = list_field(object, {"metadata", "ownerReferences"});
  const auto found = std::find_if(owners.begin(), owners.end(), [](const Json& owner) {
    return owner.value("controller", false);
  });
  return found == owners.end() ? nullptr : &*found;
}

bool is_controlled_by(const Json& object, const std::string& uid) {
  const Json* owner = controller_of(object);
  return owner != nullptr && text_field(*owner, {"uid"}) == uid;
}

bool has_finalizer(const Json& object, const std::string& finalizer) {
  const Json& finalizers = list_field(object, {"metadata", "finalizers"});
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

const Json* find_condition(const Json& object, std::string_view type) {
  const Json& conditions = list_field(object, {"status", "conditions"});
  const auto found = std::find_if(
      conditions.begin(), conditions.end(),
      [type](const Json& condition) { return text_field(condition, {"type"}) == type; });
  return found == conditions.end() ? nullptr : &*found;
}

const std::string& condition_status(const Json& object, std::string_view type) {
  const Json* condition = find_condition(object, type);
  return condition == nullptr ? nothing() : text_field(*condition, {"status"});
}

void set_condition(Json& object, const NewCondition& condition, const std::string& stamp) {
  Json& conditions = object["status"]["conditions"];
  Json* entry = nullptr;
  for (Json& candidate : conditions) {
    if (text_field(candidate, {"type"}) == condition.type) {
      entry = &candidate;
    }
  }
  if (entry == nullptr) {
    conditions.push_back(Json{{"type", condition.type}});
    entry = &conditions.back();
  }
  if (text_field(*entry, {"status"}) != condition.status) {
    (*entry)["status"] = condition.status;
    (*entry)["lastTransitionTime"] = stamp;
  }
  (*entry)["reason"] = condition.reason;
  (*entry)["message"] = condition.message;
}

const std::string& node_of(const Json& pod) {
  return text_field(pod, {"spec", "nodeName"});
}

const std::string& phase_of(const Json& pod) {
  return text_field(pod, {"status", "phase"});
}

bool is_finished(const Json& pod) {
  const std::string& phase = phase_of(pod);
  return phase == "Succeeded" || phase == "Failed";
}

bool has_ended_by_itself(const Json& pod) {
  const Json& conditions = list_field(pod, {"status", "conditions"});
  return is_finished(pod) &&
         std::none_of(conditions.begin(), conditions.end(), [](const Json& condition) {
           return text_field(condition, {"reason"}) == "DeletionByMoonfence";
         });
}

bool is_mirror(const Json& pod) {
  return find_field(pod, {"metadata", "annotations", "kubernetes.io/config.mirror"}) != nullptr;
}

bool claims_volume(const ObjectStore& store, const Json& pod, const std::string& volume) {
  const Json& sources = list_field(pod, {"spec", "volumes"});
  return std::any_of(sources.begin(), sources.end(), [&](const Json& source) {
    const Object claim =
        store.find({.resource = "persistentvolumeclaims",
                    .space = space_of(pod),
                    .name = text_field(source, {"persistentVolumeClaim", "claimName"})});
    return claim != nullptr && text_field(*claim, {"spec", "volumeName"}) == volume;
  });
}

Json without_evidence(Json node) {
  if (node["metadata"].contains("annotations")) {
    node["metadata"]["annotations"].erase("moonfence.io/fencing-evidence");
  }
  if (node["metadata"].value("annotations", Json()).empty()) {
    node["metadata"].erase("annotations");
  }
  Json others = Json::array();
  for (const Json& condition : list_field(node, {"status", "conditions"})) {
    if (text_field(condition, {"type"}) != "FencingEvidence") {
      others.push_back(condition);
    }
  }
  node["status"]["conditions"] = std::move(others);
  for (const char* field : {"resourceVersion", "managedFields", "generation"}) {
    node["metadata"].erase(field);
  }
  return node;
}

bool has_taint(const Json& node, std::string_view key, std::string_view effect) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(), [key, effect](const Json& taint) {
    return text_field(taint, {"key"}) == key && text_field(taint, {"effect"}) == effect;
  });
}

bool tolerates(const Json& toleration, const Json& taint) {
  const std::string& effect = text_field(toleration, {"effect"});
  if (!effect.empty() && effect != text_field(taint, {"effect"})) {
    return false;
  }
  const std::string& key = text_field(toleration, {"key"});
  if (!key.empty() && key != text_field(taint, {"key"})) {
    return false;
  }
  return text_field(toleration, {"operator"}) == "Exists" ||
         text_field(toleration, {"value"}) == text_field(taint, {"value"});
}

bool update_same(ObjectStore& store, const Key& key, const std::string& uid,
                 const std::function<void(Json&)>& edit, ObjectStore::Part part,
                 const std::string& actor) {
  const Object now = store.find(key);
  return now != nullptr && uid_of(*now) == uid && store.update(key, edit, part, actor).has_value();
}

}  // namespace moonfence::sim
