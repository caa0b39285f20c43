#pragma once

// What controllers ask of Kubernetes objects. What is missing reads as empty: simulated controllers
// are not the place to complain.

#include <string>
#include <string_view>

#include "sim/store/fields.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

// An empty array when missing or no array.
[[nodiscard]] const Json& list_field(const Json& object, Path path);

[[nodiscard]] const std::string& name_of(const Json& object);
[[nodiscard]] const std::string& space_of(const Json& object);
[[nodiscard]] const std::string& uid_of(const Json& object);
[[nodiscard]] Key key_of(const std::string& resource, const Json& object);
// "noobaa/core-0"
[[nodiscard]] std::string path_of(const Json& object);
[[nodiscard]] bool is_terminating(const Json& object);
// The owner reference with controller: true; null when there is none.
[[nodiscard]] const Json* controller_of(const Json& object);
[[nodiscard]] bool is_controlled_by(const Json& object, const std::string& uid);
[[nodiscard]] bool has_finalizer(const Json& object, const std::string& finalizer);

// status.conditions
[[nodiscard]] const Json* find_condition(const Json& object, std::string_view type);
// "True", "False", "Unknown"; empty when there is none.
[[nodiscard]] const std::string& condition_status(const Json& object, std::string_view type);

struct NewCondition {
  std::string_view type;
  std::string_view status;
  std::string_view reason;
  std::string_view message;
};
// lastTransitionTime changes only when the status does.
void set_condition(Json& object, const NewCondition& condition, const std::string& stamp);

// Pods
[[nodiscard]] const std::string& node_of(const Json& pod);
[[nodiscard]] const std::string& phase_of(const Json& pod);
[[nodiscard]] bool is_finished(const Json& pod);
// Not because the engine let it fail before it deletes it.
[[nodiscard]] bool has_ended_by_itself(const Json& pod);
[[nodiscard]] bool is_mirror(const Json& pod);
// Whether a claim of the pod is bound to this PersistentVolume.
[[nodiscard]] bool claims_volume(const ObjectStore& store, const Json& pod,
                                 const std::string& volume);

// A node without what is told of it to others: annotation and condition of the fencing evidence.
[[nodiscard]] Json without_evidence(Json node);

// Taints and tolerations
[[nodiscard]] bool has_taint(const Json& node, std::string_view key, std::string_view effect);
[[nodiscard]] bool tolerates(const Json& toleration, const Json& taint);

// Edits the object of that key if it still has this UID. False when nothing was written.
bool update_same(ObjectStore& store, const Key& key, const std::string& uid,
                 const std::function<void(Json&)>& edit, ObjectStore::Part part,
                 const std::string& actor);

}  // namespace moonfence::sim
