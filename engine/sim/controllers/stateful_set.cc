#include "sim/controllers/stateful_set.h"

#include <charconv>
#include <optional>
#include <vector>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "statefulset-controller";

std::string pod_name(const Json& set, std::int64_t ordinal) {
  return name_of(set) + "-" + std::to_string(ordinal);
}

std::string claim_name(const Json& claim_template, const Json& set, std::int64_t ordinal) {
  return name_of(claim_template) + "-" + pod_name(set, ordinal);
}

std::optional<std::int64_t> ordinal_of(const std::string& pod, const std::string& set) {
  if (pod.size() <= set.size() + 1 || pod.compare(0, set.size(), set) != 0) {
    return std::nullopt;
  }
  std::int64_t ordinal = 0;
  const char* first = pod.data() + set.size() + 1;
  const char* last = pod.data() + pod.size();
  const auto [end, error] = std::from_chars(first, last, ordinal);
  return error == std::errc() && end == last ? std::optional(ordinal) : std::nullopt;
}

bool is_running_and_ready(const Json& pod) {
  return phase_of(pod) == "Running" && condition_status(pod, "Ready") == "True";
}

}  // namespace

Json stateful_pod(const Json& set, std::int64_t ordinal) {
  const std::string name = pod_name(set, ordinal);
  Json pod = pod_blueprint(*find_field(set, {"spec", "template"}), space_of(set), name);
  set_controller(pod, "StatefulSet", set);
  pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name;
  pod["spec"]["hostname"] = name;
  for (const Json& claim : list_field(set, {"spec", "volumeClaimTemplates"})) {
    pod["spec"]["volumes"].push_back(
        {{"name", name_of(claim)},
         {"persistentVolumeClaim", {{"claimName", claim_name(claim, set, ordinal)}}}});
  }
  return pod;
}

void create_claims(ObjectStore& store, const Json& set, std::int64_t ordinal) {
  for (const Json& claim : list_field(set, {"spec", "volumeClaimTemplates"})) {
    const std::string name = claim_name(claim, set, ordinal);
    const Key key{.resource = "persistentvolumeclaims", .space = space_of(set), .name = name};
    if (store.find(key) != nullptr) {
      continue;
    }
    BoundClaim bound =
        claim_blueprint(space_of(set), name, text_field(claim, {"spec", "storageClassName"}));
    (void)store.create("persistentvolumes", {}, std::move(bound.volume), kActor);
    (void)store.create("persistentvolumeclaims", key.space, std::move(bound.claim), kActor);
  }
}

StatefulSets::StatefulSets(const Ground& ground, Informer& sets, Informer& pods)
    : ground_(ground),
      sets_(sets),
      pods_(pods),
      queue_(ground, "statefulsets", [this](const std::string& uid) { sync(uid); }) {
  sets_.on_change([this](const Object& /*before*/, const Object& after) {
    if (after != nullptr) {
      queue_.add(uid_of(*after));
    }
  });
  pods_.on_change([this](const Object& before, const Object& after) {
    const Json* owner = controller_of(after == nullptr ? *before : *after);
    if (owner != nullptr && text_field(*owner, {"kind"}) == "StatefulSet") {
      queue_.add(text_field(*owner, {"uid"}));
    }
  });
}

void StatefulSets::take_up() {
  for (const auto& [key, set] : sets_.all()) {
    queue_.add(uid_of(*set));
  }
}

void StatefulSets::sync(const std::string& uid) {
  const Object set = sets_.find_uid(uid);
  if (set == nullptr) {
    return;
  }
  const bool ordered = text_field(*set, {"spec", "podManagementPolicy"}) != "Parallel";
  const std::int64_t replicas = number_field(*set, {"spec", "replicas"}).value_or(1);
  for (std::int64_t ordinal = 0; ordinal < replicas; ++ordinal) {
    const Object pod = pods_.find(space_of(*set), pod_name(*set, ordinal));
    if (pod == nullptr) {
      create_pod(*set, ordinal);
    } else if (!is_terminating(*pod) && is_finished(*pod)) {
      remove_pod(*pod);
    }
    if (ordered && (pod == nullptr || is_terminating(*pod) || !is_running_and_ready(*pod))) {
      return;
    }
  }
  // Too many: from the highest ordinal down, in an ordered set one after the other.
  std::map<std::int64_t, Object, std::greater<>> surplus;
  for (const auto& [key, pod] : pods_.all()) {
    const auto ordinal = ordinal_of(name_of(*pod), name_of(*set));
    if (is_controlled_by(*pod, uid) && ordinal && *ordinal >= replicas) {
      surplus[*ordinal] = pod;
    }
  }
  for (const auto& [ordinal, pod] : surplus) {
    if (!is_terminating(*pod)) {
      remove_pod(*pod);
    }
    if (ordered) {
      return;
    }
  }
}

void StatefulSets::create_pod(const Json& set, std::int64_t ordinal) {
  create_claims(ground_.store, set, ordinal);
  // AlreadyExists: the informer is behind, and its next change brings us here again.
  (void)ground_.store.create("pods", space_of(set), stateful_pod(set, ordinal), kActor);
}

void StatefulSets::remove_pod(const Json& pod) {
  DeleteOptions options;
  options.uid = uid_of(pod);
  (void)ground_.store.remove(key_of("pods", pod), options, kActor);
}

}  // namespace moonfence::sim
