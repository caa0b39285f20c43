#include "sim/controllers/pod_gc.h"

#include <algorithm>
#include <vector>

#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "pod-garbage-collector";
constexpr Duration kPeriod = 20s;
constexpr Duration kQuarantine = 40s;
constexpr int kOutOfService = 26;

bool is_out_of_service(const Json& node) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return condition_status(node, "Ready") != "True" &&
         std::any_of(taints.begin(), taints.end(), [](const Json& taint) {
           return text_field(taint, {"key"}) == "node.kubernetes.io/out-of-service";
         });
}

}  // namespace

PodGc::PodGc(const Ground& ground, Informer& nodes, Informer& pods)
    : ground_(ground), nodes_(nodes), pods_(pods), random_(ground.random.fork("pod-gc")) {
  timer_ = ground_.loop.after(between(*random_, 0s, kPeriod), [this] { look(); });
}

void PodGc::look() {
  timer_ = ground_.loop.after(kPeriod, [this] { look(); });
  if (ground_.kubernetes >= kOutOfService) {
    collect_out_of_service();
  }
  for (const auto& [key, pod] : pods_.all()) {
    const std::string& node = node_of(*pod);
    if (node.empty() || nodes_.find({}, node) != nullptr) {
      continue;
    }
    loop::Timer& timer = missing_[node];
    if (!timer.pending()) {
      timer = ground_.loop.after(kQuarantine, [this, node] { collect(node); });
    }
  }
}

void PodGc::collect_out_of_service() {
  std::vector<Object> pods;
  for (const auto& [key, pod] : pods_.all()) {
    const Object node = nodes_.find({}, node_of(*pod));
    if (is_terminating(*pod) && node != nullptr && is_out_of_service(*node)) {
      pods.push_back(pod);
    }
  }
  DeleteOptions options;
  options.grace_seconds = 0;
  for (const Object& pod : pods) {
    options.uid = uid_of(*pod);
    (void)ground_.store.remove(key_of("pods", *pod), options, kActor);
  }
}

void PodGc::collect(const std::string& node) {
  missing_.erase(node);
  if (ground_.store.find({.resource = "nodes", .space = {}, .name = node}) != nullptr) {
    return;
  }
  std::vector<Key> keys;
  keys.reserve(pods_.all().size());
  for (const auto& [key, pod] : pods_.all()) {
    if (node_of(*pod) == node) {
      keys.push_back(key_of("pods", *pod));
    }
  }
  DeleteOptions options;
  options.grace_seconds = 0;
  for (const Key& key : keys) {
    (void)ground_.store.remove(key, options, kActor);
  }
}

}  // namespace moonfence::sim
