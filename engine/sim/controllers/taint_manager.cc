#include "sim/controllers/taint_manager.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

constexpr const char* kActor = "taint-manager";

std::vector<const Json*> evicting_taints(const Json& node) {
  std::vector<const Json*> taints;
  for (const Json& taint : list_field(node, {"spec", "taints"})) {
    if (text_field(taint, {"effect"}) == "NoExecute") {
      taints.push_back(&taint);
    }
  }
  return taints;
}

struct Tolerance {
  bool none = false;              // some taint is not tolerated at all
  std::optional<Duration> until;  // absent: for ever
};

Tolerance tolerance_of(const Json& pod, const std::vector<const Json*>& taints) {
  Tolerance tolerance;
  const Json& tolerations = list_field(pod, {"spec", "tolerations"});
  for (const Json* taint : taints) {
    const auto found =
        std::find_if(tolerations.begin(), tolerations.end(),
                     [taint](const Json& toleration) { return tolerates(toleration, *taint); });
    if (found == tolerations.end()) {
      return {.none = true, .until = {}};
    }
    if (const auto seconds = number_field(*found, {"tolerationSeconds"})) {
      const Duration until = std::chrono::seconds(std::max<std::int64_t>(*seconds, 0));
      tolerance.until = std::min(tolerance.until.value_or(until), until);
    }
  }
  return tolerance;
}

}  // namespace

TaintManager::TaintManager(const Ground& ground, Informer& nodes, Informer& pods)
    : ground_(ground), nodes_(nodes), pods_(pods) {
  nodes_.on_change([this](const Object& before, const Object& after) { saw_node(before, after); });
  pods_.on_change([this](const Object& before, const Object& after) {
    if (after == nullptr) {
      evictions_.erase(uid_of(*before));
    } else if (before == nullptr || node_of(*before) != node_of(*after)) {
      saw_pod(after);
    }
  });
}

void TaintManager::take_up() {
  for (const auto& [key, pod] : pods_.all()) {
    if (!node_of(*pod).empty()) {
      saw_pod(pod);
    }
  }
}

void TaintManager::saw_node(const Object& before, const Object& after) {
  if (after == nullptr) {
    return;
  }
  static const Json no_taints = Json::array();
  const Json& old_taints = before == nullptr ? no_taints : list_field(*before, {"spec", "taints"});
  if (old_taints == list_field(*after, {"spec", "taints"})) {
    return;
  }
  for (const auto& [key, pod] : pods_.all()) {
    if (node_of(*pod) == name_of(*after)) {
      judge(*pod, *after);
    }
  }
}

void TaintManager::saw_pod(const Object& after) {
  const Object node = nodes_.find({}, node_of(*after));
  if (node != nullptr) {
    judge(*after, *node);
  }
}

void TaintManager::judge(const Json& pod, const Json& node) {
  const std::string& uid = uid_of(pod);
  const auto taints = evicting_taints(node);
  if (taints.empty()) {
    evictions_.erase(uid);
    return;
  }
  const Tolerance tolerance = tolerance_of(pod, taints);
  if (!tolerance.none && !tolerance.until) {
    evictions_.erase(uid);
    return;
  }
  loop::Timer& timer = evictions_[uid];
  // A clock that runs goes on running: another taint does not start it anew.
  if (tolerance.none || !timer.pending()) {
    timer = ground_.loop.after(tolerance.until.value_or(Duration::zero()),
                               [this, key = key_of("pods", pod), uid] { evict(key, uid); });
  }
}

void TaintManager::evict(const Key& pod, const std::string& uid) {
  evictions_.erase(uid);
  const Object now = ground_.store.find(pod);
  if (now != nullptr && uid_of(*now) == uid && !is_terminating(*now)) {
    (void)ground_.store.remove(pod, {}, kActor);
  }
}

}  // namespace moonfence::sim
