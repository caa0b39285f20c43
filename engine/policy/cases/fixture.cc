#include "policy/cases/fixture.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "policy/cases/fixture_patch.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

std::string name_of(const json& object) {
  return std::string(text_of(member(&object, "metadata", "name")));
}
std::string namespace_of(const json& object) {
  const std::string space(text_of(member(&object, "metadata", "namespace")));
  return space.empty() ? "default" : space;
}

std::string known_pods(const std::vector<const json*>& pods) {
  constexpr std::size_t kMostNames = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(pods.size(), kMostNames); ++i) {
    names += (names.empty() ? "" : ", ") + escaped(namespace_of(*pods[i]), 64) + "/" +
             escaped(name_of(*pods[i]), 64);
  }
  return names + (pods.size() > kMostNames ? ", ..." : "");
}

Result<json> choose_pod(const Objects& objects, const std::string& wanted) {
  const auto pods = of_kind(objects, "Pod");
  if (pods.empty()) {
    return failure(Error::Kind::Invalid, "there is no Pod among the objects",
                   "add what `kubectl get pod NAME -o json` prints");
  }
  std::vector<const json*> matching;
  for (const json* pod : pods) {
    if (wanted.empty() || wanted == name_of(*pod) ||
        wanted == namespace_of(*pod) + "/" + name_of(*pod)) {
      matching.push_back(pod);
    }
  }
  if (matching.empty()) {
    return failure(Error::Kind::Invalid, "no Pod is called '" + escaped(wanted, 128) + "'",
                   "there are " + known_pods(pods));
  }
  if (matching.size() > 1) {
    return failure(
        Error::Kind::Invalid,
        std::to_string(matching.size()) + " Pods could be meant: " + known_pods(matching),
        "name one: pod = 'NAMESPACE/NAME' in a case, --pod-name for eval");
  }
  json pod = *matching.front();
  pod["metadata"]["namespace"] = namespace_of(pod);
  if (text_of(member(&pod, "metadata", "uid")).empty()) {
    pod["metadata"]["uid"] = "uid-of-" + name_of(pod);
  }
  return pod;
}

const json* find_node(const Objects& objects, std::string_view name) {
  for (const json* node : of_kind(objects, "Node")) {
    if (text_of(member(node, "metadata", "name")) == name) {
      return node;
    }
  }
  return nullptr;
}

bool is_ready(const json& node) {
  const json* conditions = member(&node, "status", "conditions");
  return conditions != nullptr && conditions->is_array() &&
         std::any_of(conditions->begin(), conditions->end(), [](const json& condition) {
           return text_of(member(&condition, "type")) == "Ready" &&
                  text_of(member(&condition, "status")) == "True";
         });
}

bool is_cordoned(const json& node) {
  const json* flag = member(&node, "spec", "unschedulable");
  return flag != nullptr && flag->is_boolean() && *flag;
}

void count_nodes(const Objects& objects, ClusterFacts& cluster) {
  const auto nodes = of_kind(objects, "Node");
  cluster.nodes_total = std::max<std::int64_t>(1, static_cast<std::int64_t>(nodes.size()));
  for (const json* node : nodes) {
    cluster.nodes_ready += is_ready(*node) ? 1 : 0;
    cluster.nodes_schedulable += is_ready(*node) && !is_cordoned(*node) ? 1 : 0;
  }
}

std::optional<WallTime> renewed_in(const Objects& objects, std::string_view node) {
  for (const json* lease : of_kind(objects, "Lease")) {
    if (text_of(member(lease, "metadata", "namespace")) == "kube-node-lease" &&
        name_of(*lease) == node) {
      return parse_rfc3339(text_of(member(lease, "spec", "renewTime")));
    }
  }
  return std::nullopt;
}

json unknown_node(const std::string& name) {
  return {{"kind", "Node"},
          {"metadata", {{"name", name}, {"uid", "uid-of-" + name}}},
          {"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}};
}

}  // namespace

NodeFacts node_facts_of(const Scene& scene) {
  NodeFacts facts = scene.node_facts;
  if (scene.lease_renewed && !facts.lease_age) {
    facts.lease_age = std::max<Duration>(
        Duration::zero(),
        std::chrono::duration_cast<Duration>(scene.cluster.now - *scene.lease_renewed));
  }
  return facts;
}

Result<Scene> make_scene(const Objects& objects, const std::string& pod, const json& patch) {
  auto chosen = choose_pod(objects, pod);
  if (!chosen) {
    return failure(std::move(chosen.error()));
  }
  std::vector<std::pair<InputPath, json>> on_objects;
  std::vector<std::pair<InputPath, json>> on_facts;
  for (const auto& [text, value] : patch.items()) {
    auto path = parse_input_path(text);
    if (!path) {
      return failure(std::move(path.error()).within("patch"));
    }
    auto& list = is_object_patch(*path) ? on_objects : on_facts;
    list.emplace_back(std::move(*path), value);
  }
  Scene scene{.pod = std::move(*chosen), .node = {}, .cluster = {}};
  const std::string node_name(text_of(member(&scene.pod, "spec", "nodeName")));
  const json* node = find_node(objects, node_name);
  scene.node = node == nullptr ? unknown_node(node_name) : *node;
  scene.lease_renewed = renewed_in(objects, node_name);
  count_nodes(objects, scene.cluster);
  for (const auto& [path, value] : on_objects) {
    if (auto patched = patch_object(scene, path, value); !patched) {
      return failure(std::move(patched.error()));
    }
  }
  scene.facts = facts_of(scene.pod, objects, kEveryNeed, scene.gaps);
  for (const auto& [path, value] : on_facts) {
    if (auto patched = patch_facts(scene, path, value); !patched) {
      return failure(std::move(patched.error()));
    }
  }
  return scene;
}

}  // namespace moonfence::policy
