#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "kube/text/json.h"
#include "policy/cases/fixture_patch.h"
#include "policy/cases/test_file.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return escaped(kube::to_text(value), 64);
}

template <class Object>
struct TextField {
  std::string_view name;
  std::string Object::*text;
};

constexpr std::array<TextField<VolumeFacts>, 8> kVolume = {{
    {"name", &VolumeFacts::name},
    {"claim", &VolumeFacts::claim},
    {"namespace", &VolumeFacts::space},
    {"pv", &VolumeFacts::pv},
    {"driver", &VolumeFacts::driver},
    {"handle", &VolumeFacts::handle},
    {"storage_class", &VolumeFacts::storage_class},
    {"provisioner", &VolumeFacts::provisioner},
}};
constexpr std::array<TextField<SiblingFacts>, 6> kSibling = {{
    {"name", &SiblingFacts::name},
    {"uid", &SiblingFacts::uid},
    {"node_name", &SiblingFacts::node_name},
    {"claim", &SiblingFacts::claim},
    {"phase", &SiblingFacts::phase},
    {"attach_error", &SiblingFacts::attach_error},
}};
constexpr std::array<TextField<OwnerFacts>, 4> kOwner = {{
    {"kind", &OwnerFacts::kind},
    {"name", &OwnerFacts::name},
    {"uid", &OwnerFacts::uid},
    {"api_version", &OwnerFacts::api_version},
}};

template <class Object, std::size_t kCount>
Result<void> set_text(Object& object, const std::array<TextField<Object>, kCount>& fields,
                      const InputPath& path, std::size_t step, const json& value) {
  std::vector<std::string_view> known;
  for (const auto& field : fields) {
    known.push_back(field.name);
    if (path.steps.size() == step + 1 && field.name == path.name(step)) {
      if (!value.is_string()) {
        return bad_patch(path, shown(value) + " is no text");
      }
      object.*field.text = value.get<std::string>();
      return {};
    }
  }
  return bad_patch(path, "unknown field '" + escaped(path.name(step), 64) + "'" +
                             did_you_mean(path.name(step), known));
}

Result<std::vector<std::string>> texts(const InputPath& path, const json& value) {
  std::vector<std::string> list;
  if (!value.is_array() && !value.empty()) {
    return bad_patch(path, shown(value) + " is no list of texts");
  }
  for (const json& element : value) {
    if (!element.is_string()) {
      return bad_patch(path, shown(element) + " is no text");
    }
    list.push_back(element.get<std::string>());
  }
  return list;
}

// The element that pod.LIST[n] names; null when there is none.
template <class Object>
Object* element(std::vector<Object>& list, const InputPath& path) {
  const bool fits =
      path.steps.size() == 4 && path.steps[2].name.empty() && path.steps[2].position <= list.size();
  return fits ? &list[path.steps[2].position - 1] : nullptr;
}

template <class Object>
Failure no_element(const std::vector<Object>& list, const InputPath& path) {
  return bad_patch(path, "there is no such entry among " + std::to_string(list.size()),
                   "name one as in pod." + std::string(path.name(1)) + "[1].name");
}

// The volume that pod.claims[n] names, or pod.volumes[n], which leaves out those without a PV.
VolumeFacts* volume_at(std::vector<VolumeFacts>& volumes, const InputPath& path) {
  if (path.name(1) == "claims") {
    return element(volumes, path);
  }
  std::size_t position = 0;
  for (VolumeFacts& volume : volumes) {
    position += volume.pv.empty() ? 0U : 1U;
    if (path.steps.size() == 4 && path.steps[2].name.empty() && !volume.pv.empty() &&
        path.steps[2].position == position) {
      return &volume;
    }
  }
  return nullptr;
}

// A claim that leads nowhere has nothing of what it would lead to.
Result<void> patch_state(VolumeFacts& volume, const InputPath& path, const json& value) {
  constexpr std::array<std::string_view, 4> kStates = {"bound", "unbound", "claim_missing",
                                                       "volume_missing"};
  const std::string state = value.is_string() ? value.get<std::string>() : "";
  if (std::find(kStates.begin(), kStates.end(), state) == kStates.end()) {
    return bad_patch(path, shown(value) + " is no state" + did_you_mean(state, kStates),
                     "known are bound, unbound, claim_missing, volume_missing");
  }
  if (state != "bound") {
    volume = {.name = volume.name, .claim = volume.claim, .space = volume.space};
  }
  volume.state = state;
  return {};
}

Result<void> patch_volume(Scene& scene, const InputPath& path, const json& value) {
  VolumeFacts* volume = volume_at(*scene.facts.volumes, path);
  if (volume == nullptr) {
    return no_element(*scene.facts.volumes, path);
  }
  scene.gaps.erase("volumes");
  if (path.name(3) == "state") {
    return patch_state(*volume, path, value);
  }
  if (path.name(3) == "attachment") {
    if (value.is_boolean() && !value.get<bool>()) {
      volume->attachment.reset();
      return {};
    }
    if (!value.is_string()) {
      return bad_patch(path, shown(value) + " is no text", "false removes it");
    }
    volume->attachment = value.get<std::string>();
    return {};
  }
  if (path.name(3) == "access_modes") {
    auto list = texts(path, value);
    if (!list) {
      return failure(std::move(list.error()));
    }
    volume->access_modes = std::move(*list);
    return {};
  }
  return set_text(*volume, kVolume, path, 3, value);
}

Result<void> patch_sibling(Scene& scene, const InputPath& path, const json& value) {
  SiblingFacts* sibling = element(*scene.facts.siblings, path);
  if (sibling == nullptr) {
    return no_element(*scene.facts.siblings, path);
  }
  if (path.name(3) == "ready" || path.name(3) == "terminating") {
    if (!value.is_boolean()) {
      return bad_patch(path, shown(value) + " is neither true nor false");
    }
    (path.name(3) == "ready" ? sibling->ready : sibling->terminating) = value.get<bool>();
    return {};
  }
  return set_text(*sibling, kSibling, path, 3, value);
}

Result<void> patch_cluster(Scene& scene, const InputPath& path, const json& value) {
  constexpr std::array<std::string_view, 4> kNames = {"now", "nodes_total", "nodes_ready",
                                                      "nodes_schedulable"};
  if (path.name(1) == "now") {
    const auto now = time_of(value);
    if (!now) {
      return bad_patch(path, shown(value) + " is no time",
                       "write '2026-11-20T10:07:00Z' or Unix seconds");
    }
    scene.cluster.now = *now;
    scene.now_given = true;
    return {};
  }
  if (std::find(kNames.begin(), kNames.end(), path.name(1)) == kNames.end()) {
    return bad_patch(path, "unknown field '" + escaped(path.name(1), 64) + "' of cluster" +
                               did_you_mean(path.name(1), kNames));
  }
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    return bad_patch(path, shown(value) + " is no number of nodes");
  }
  const auto count = value.get<std::int64_t>();
  (path.name(1) == "nodes_total"   ? scene.cluster.nodes_total
   : path.name(1) == "nodes_ready" ? scene.cluster.nodes_ready
                                   : scene.cluster.nodes_schedulable) = count;
  return {};
}

}  // namespace

Result<void> patch_facts(Scene& scene, const InputPath& path, const json& value) {
  if (path.root() == "pod" && (path.name(1) == "volumes" || path.name(1) == "claims")) {
    return patch_volume(scene, path, value);
  }
  if (path.root() == "pod" && path.name(1) == "siblings") {
    return patch_sibling(scene, path, value);
  }
  if (path.root() == "pod" && path.name(1) == "root_owner") {
    scene.gaps.erase("root_owner");
    if (scene.facts.owner_chain->empty()) {
      scene.facts.owner_chain->emplace_back();
    }
    return set_text(scene.facts.owner_chain->back(), kOwner, path, 2, value);
  }
  if (path.root() == "pod" && path.name(1) == "owner_chain") {
    OwnerFacts* owner = element(*scene.facts.owner_chain, path);
    if (owner == nullptr) {
      return no_element(*scene.facts.owner_chain, path);
    }
    scene.gaps.erase("root_owner");
    return set_text(*owner, kOwner, path, 3, value);
  }
  if (path.root() == "pod" && path.name(1) == "placement") {
    if (path.steps.size() != 3 || path.name(2) != "candidates") {
      return bad_patch(path, "placement has only candidates", "patch pod.placement.candidates");
    }
    auto list = texts(path, value);
    if (!list) {
      return failure(std::move(list.error()));
    }
    scene.gaps.erase("placement");
    scene.facts.candidates = std::move(*list);
    return {};
  }
  if (path.root() == "cluster" && path.steps.size() == 2) {
    return patch_cluster(scene, path, value);
  }
  if (path.root() == "settings") {
    return bad_patch(path, "settings are no inputs of a pod", "use the case's settings");
  }
  constexpr std::array<std::string_view, 3> kRoots = {"pod", "node", "cluster"};
  return bad_patch(
      path, "unknown input '" + escaped(path.root(), 64) + "'" + did_you_mean(path.root(), kRoots),
      "inputs are pod, node and cluster");
}

}  // namespace moonfence::policy
