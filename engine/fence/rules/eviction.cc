#include "fence/rules/eviction.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cluster/nodes/node_view.h"
#include "kube/text/json.h"

namespace moonfence::fence {

using nlohmann::json;

namespace {

// What a node that is out of service carries with NoExecute, sooner or later: a pod that any of
// them marks for deletion is removed by force.
struct Taint {
  std::string_view key;
  std::string_view value;
};
constexpr std::array<Taint, 3> kTaints = {{{cluster::kOutOfServiceKey, "nodeshutdown"},
                                           {"node.kubernetes.io/unreachable", ""},
                                           {"node.kubernetes.io/not-ready", ""}}};

// By v1.Toleration's rules; nullopt: it cannot be told.
std::optional<bool> matches(const json& toleration, const Taint& taint) {
  if (!toleration.is_object()) {
    return std::nullopt;
  }
  kube::Fields fields(toleration);
  const std::string effect = fields.string({"effect"});
  const std::string key = fields.string({"key"});
  const std::string value = fields.string({"value"});
  const std::string how = fields.string({"operator"});
  if (fields.fault()) {
    return std::nullopt;
  }
  if ((!effect.empty() && effect != "NoExecute") || (!key.empty() && key != taint.key)) {
    return false;
  }
  return how == "Exists" || ((how.empty() || how == "Equal") && value == taint.value);
}

// Of several tolerations Kubernetes heeds the first that matches: with tolerationSeconds the pod is
// evicted later.
bool tolerates(const json& tolerations, const Taint& taint) {
  for (const json& toleration : tolerations) {
    const auto matching = matches(toleration, taint);
    if (!matching) {
      return false;
    }
    if (*matching) {
      return !toleration.contains("tolerationSeconds");
    }
  }
  return false;
}

// The volume may be detached under it.
bool has_claims(const json& pod) {
  const json::json_pointer path("/spec/volumes");
  if (!pod.contains(path) || !pod.at(path).is_array()) {
    return false;
  }
  const json& volumes = pod.at(path);
  return std::any_of(volumes.begin(), volumes.end(), [](const json& volume) {
    return volume.contains("persistentVolumeClaim") || volume.contains("ephemeral");
  });
}

}  // namespace

bool may_taint(const policy::PolicySet& set) {
  return std::any_of(set.bindings.begin(), set.bindings.end(), [](const policy::Binding& binding) {
    return binding.policy != nullptr && binding.mode == policy::Mode::Enforce &&
           binding.allow.out_of_service && binding.policy->judges_node();
  });
}

bool is_evicted(const kube::Pod& pod) {
  if (pod.deletion_timestamp || pod.raw == nullptr || has_claims(*pod.raw)) {
    return true;
  }
  const json::json_pointer path("/spec/tolerations");
  if (!pod.raw->contains(path) || !pod.raw->at(path).is_array()) {
    return true;
  }
  const json& tolerations = pod.raw->at(path);
  return !std::all_of(kTaints.begin(), kTaints.end(),
                      [&tolerations](const Taint& taint) { return tolerates(tolerations, taint); });
}

std::optional<int> minor_version(const json& answer) {
  if (!answer.is_object()) {
    return std::nullopt;
  }
  kube::Fields fields(answer);
  const std::string major = fields.string({"major"});
  const std::string minor = fields.string({"minor"});
  int number = 0;
  const char* end = minor.data() + minor.size();
  const auto read = std::from_chars(minor.data(), end, number);
  const bool whole = read.ec == std::errc() && (read.ptr == end || *read.ptr == '+');
  return !fields.fault() && major == "1" && whole && number >= 0 ? std::optional(number)
                                                                 : std::nullopt;
}

}  // namespace moonfence::fence
