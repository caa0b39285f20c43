#include "sim/controllers/replica_set.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "replicaset-controller";

// Those that serve least go first.
auto worth(const Json& pod) {
  return std::tuple(!node_of(pod).empty(), phase_of(pod) == "Running",
                    condition_status(pod, "Ready") == "True", uid_of(pod));
}

}  // namespace

Json replica_pod(const Json& set) {
  Json pod = pod_blueprint(*find_field(set, {"spec", "template"}), space_of(set), "");
  pod["metadata"].erase("name");
  pod["metadata"]["generateName"] = name_of(set) + "-";
  set_controller(pod, "ReplicaSet", set);
  return pod;
}

ReplicaSets::ReplicaSets(const Ground& ground, Informer& sets, Informer& pods)
    : ground_(ground),
      sets_(sets),
      pods_(pods),
      queue_(ground, "replicasets", [this](const std::string& uid) { sync(uid); }) {
  sets_.on_change([this](const Object& /*before*/, const Object& after) {
    if (after != nullptr) {
      queue_.add(uid_of(*after));
    }
  });
  pods_.on_change([this](const Object& before, const Object& after) {
    const Json& pod = after == nullptr ? *before : *after;
    const Json* owner = controller_of(pod);
    if (owner == nullptr || text_field(*owner, {"kind"}) != "ReplicaSet") {
      return;
    }
    const std::string& set = text_field(*owner, {"uid"});
    awaited_[set].erase(uid_of(pod));
    if (after == nullptr || is_terminating(*after)) {
      leaving_[set].erase(uid_of(pod));
    }
    queue_.add(set);
  });
}

void ReplicaSets::take_up() {
  for (const auto& [key, set] : sets_.all()) {
    queue_.add(uid_of(*set));
  }
}

void ReplicaSets::sync(const std::string& uid) {
  const Object set = sets_.find_uid(uid);
  // What it did itself must show before it counts again.
  if (set == nullptr || !awaited_[uid].empty() || !leaving_[uid].empty()) {
    return;
  }
  std::vector<Object> active;
  active.reserve(pods_.all().size());
  for (const auto& [key, pod] : pods_.all()) {
    if (is_controlled_by(*pod, uid) && !is_terminating(*pod) && !is_finished(*pod)) {
      active.push_back(pod);
    }
  }
  const auto wanted =
      static_cast<std::size_t>(number_field(*set, {"spec", "replicas"}).value_or(1));
  for (std::size_t count = active.size(); count < wanted; ++count) {
    if (const auto made = ground_.store.create("pods", space_of(*set), replica_pod(*set), kActor)) {
      awaited_[uid].insert(uid_of(**made));
    }
  }
  if (active.size() <= wanted) {
    return;
  }
  std::sort(active.begin(), active.end(),
            [](const Object& left, const Object& right) { return worth(*left) < worth(*right); });
  for (std::size_t index = 0; index + wanted < active.size(); ++index) {
    DeleteOptions options;
    options.uid = uid_of(*active[index]);
    if (ground_.store.remove(key_of("pods", *active[index]), options, kActor)) {
      leaving_[uid].insert(*options.uid);
    }
  }
}

}  // namespace moonfence::sim
