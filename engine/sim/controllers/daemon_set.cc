#include "sim/controllers/daemon_set.h"

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "daemon-set-controller";

}  // namespace

Json daemon_pod(const Json& set, const std::string& node) {
  Json pod = pod_blueprint(*find_field(set, {"spec", "template"}), space_of(set), "");
  pod["metadata"].erase("name");
  pod["metadata"]["generateName"] = name_of(set) + "-";
  set_controller(pod, "DaemonSet", set);
  const Json field = {
      {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({node})}};
  pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
     ["nodeSelectorTerms"] = Json::array({{{"matchFields", Json::array({field})}}});
  return pod;
}

const std::string& pinned_node(const Json& pod) {
  static const std::string none;
  const Json& terms =
      list_field(pod, {"spec", "affinity", "nodeAffinity",
                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  const Json* values = nullptr;
  if (!terms.empty() && !list_field(terms[0], {"matchFields"}).empty()) {
    values = &list_field(list_field(terms[0], {"matchFields"})[0], {"values"});
  }
  return values == nullptr || values->empty() ? none : (*values)[0].get_ref<const std::string&>();
}

DaemonSets::DaemonSets(const Ground& ground, Informer& sets, Informer& nodes, Informer& pods)
    : ground_(ground),
      sets_(sets),
      nodes_(nodes),
      pods_(pods),
      queue_(ground, "daemonsets", [this](const std::string& uid) { sync(uid); }) {
  const auto queue_all = [this] {
    for (const auto& [key, set] : sets_.all()) {
      queue_.add(uid_of(*set));
    }
  };
  sets_.on_change([queue_all](const Object&, const Object&) { queue_all(); });
  nodes_.on_change([queue_all](const Object& before, const Object& after) {
    if (before == nullptr || after == nullptr) {
      queue_all();
    }
  });
  pods_.on_change([this](const Object& before, const Object& after) {
    const Json& pod = after == nullptr ? *before : *after;
    const Json* owner = controller_of(pod);
    if (owner != nullptr && text_field(*owner, {"kind"}) == "DaemonSet") {
      awaited_[text_field(*owner, {"uid"})].erase(uid_of(pod));
      queue_.add(text_field(*owner, {"uid"}));
    }
  });
}

void DaemonSets::take_up() {
  for (const auto& [key, set] : sets_.all()) {
    queue_.add(uid_of(*set));
  }
}

void DaemonSets::sync(const std::string& uid) {
  const Object set = sets_.find_uid(uid);
  if (set == nullptr || !awaited_[uid].empty()) {
    return;
  }
  std::set<std::string> served;
  std::vector<Object> surplus;
  for (const auto& [key, pod] : pods_.all()) {
    if (!is_controlled_by(*pod, uid)) {
      continue;
    }
    const std::string& node = pinned_node(*pod);
    // A pod that is being deleted still holds its place.
    served.insert(node);
    if (!is_terminating(*pod) && (is_finished(*pod) || nodes_.find({}, node) == nullptr)) {
      surplus.push_back(pod);
    }
  }
  for (const Object& pod : surplus) {
    DeleteOptions options;
    options.uid = uid_of(*pod);
    (void)ground_.store.remove(key_of("pods", *pod), options, kActor);
  }
  for (const auto& [key, node] : nodes_.all()) {
    if (served.contains(name_of(*node))) {
      continue;
    }
    if (const auto made = ground_.store.create("pods", space_of(*set),
                                               daemon_pod(*set, name_of(*node)), kActor)) {
      awaited_[uid].insert(uid_of(**made));
    }
  }
}

}  // namespace moonfence::sim
