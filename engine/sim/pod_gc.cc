#include "sim/pod_gc.h"

#include <vector>

#include "sim/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "pod-garbage-collector";
constexpr Duration kPeriod = 20s;
constexpr Duration kQuarantine = 40s;

}  // namespace

PodGc::PodGc(const Ground& ground, Informer& nodes, Informer& pods)
    : ground_(ground), nodes_(nodes), pods_(pods), random_(ground.random.fork("pod-gc")) {
  timer_ = ground_.loop.after(between(*random_, 0s, kPeriod), [this] { look(); });
}

void PodGc::look() {
  timer_ = ground_.loop.after(kPeriod, [this] { look(); });
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
