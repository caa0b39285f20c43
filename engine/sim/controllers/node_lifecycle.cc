#include "sim/controllers/node_lifecycle.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "node-controller";
// --node-eviction-rate=0.1 a second and zone.
constexpr Duration kEvictionInterval = 10s;
constexpr Duration kStartupGrace = 1min;

bool is_lifecycle_taint(const Json& taint, std::string_view effect) {
  const std::string& key = text_field(taint, {"key"});
  return text_field(taint, {"effect"}) == effect && (key == kUnreachable || key == kNotReady);
}

// Of the lifecycle's taints with this effect the node carries that of `key` alone; none when it is
// empty.
bool carries_only(const Json& node, std::string_view effect, std::string_view key) {
  bool there = key.empty();
  for (const Json& taint : list_field(node, {"spec", "taints"})) {
    if (is_lifecycle_taint(taint, effect)) {
      if (text_field(taint, {"key"}) != key) {
        return false;
      }
      there = true;
    }
  }
  return there;
}

// The taint's key that a Ready condition asks for; empty: none. A node without the condition is
// left as it is.
std::string_view taint_for(const std::string& ready) {
  if (ready == "Unknown") {
    return kUnreachable;
  }
  return ready == "False" ? kNotReady : std::string_view();
}

}  // namespace

NodeLifecycle::NodeLifecycle(const Ground& ground, Informer& nodes, Informer& leases,
                             Informer& pods)
    : ground_(ground),
      nodes_(nodes),
      leases_(leases),
      pods_(pods),
      random_(ground.random.fork("node-lifecycle")) {
  nodes_.on_change([this](const Object& before, const Object& after) { saw_node(before, after); });
  for (const auto& [key, node] : nodes_.all()) {
    judge(node, true);
  }
  monitor_ = ground_.loop.after(between(*random_, 0s, ground_.timings.node_monitor_period),
                                [this] { monitor(); });
}

void NodeLifecycle::monitor() {
  monitor_ = ground_.loop.after(ground_.timings.node_monitor_period, [this] { monitor(); });
  std::erase_if(health_,
                [this](const auto& entry) { return nodes_.find({}, entry.first) == nullptr; });
  // What is judged writes to the store, never to the cache at once; still, no iterator is kept.
  std::vector<Object> nodes;
  nodes.reserve(nodes_.all().size());
  for (const auto& [key, node] : nodes_.all()) {
    nodes.push_back(node);
  }
  for (const Object& node : nodes) {
    judge(node, false);
  }
}

bool NodeLifecycle::has_news(Health& health, const Json& node, const Object& lease, bool first) {
  const Json* ready = find_condition(node, "Ready");
  const std::string heartbeat = ready == nullptr ? "" : text_field(*ready, {"lastHeartbeatTime"});
  const std::string renew_time = lease == nullptr ? "" : text_field(*lease, {"spec", "renewTime"});
  // The texts order as the times do.
  const bool news = first || heartbeat != health.heartbeat || renew_time > health.renew_time;
  health.heartbeat = heartbeat;
  health.renew_time = std::max(health.renew_time, renew_time);
  return news;
}

void NodeLifecycle::judge(const Object& node, bool first) {
  const std::string& name = name_of(*node);
  const auto [place, is_new] = health_.try_emplace(name);
  Health& health = place->second;
  const Object lease = leases_.find("kube-node-lease", name);
  if (health.healthy_node == node && health.healthy_lease == lease &&
      ground_.loop.now() - health.probe <= ground_.timings.node_monitor_grace) {
    return;
  }
  if (has_news(health, *node, lease, first || is_new)) {
    health.probe = ground_.loop.now();
  }
  const std::string observed = condition_status(*node, "Ready");
  const Duration grace = observed.empty() ? kStartupGrace : ground_.timings.node_monitor_grace;
  const bool silent = ground_.loop.now() - health.probe > grace;
  if (silent && observed != "Unknown") {
    mark_unknown(node);
  }
  if (!observed.empty() || silent) {
    judge_no_execute(*node, observed.empty() ? "Unknown" : observed);
  }
  if (silent && observed == "True") {
    mark_pods_not_ready(name);
  }
  const bool healthy =
      !silent && observed == "True" && list_field(*node, {"spec", "taints"}).empty();
  health.healthy_node = healthy ? node : nullptr;
  health.healthy_lease = healthy ? lease : nullptr;
}

void NodeLifecycle::mark_unknown(const Object& node) {
  const std::string stamp = ground_.stamp();
  const std::string& version = text_field(*node, {"metadata", "resourceVersion"});
  const auto edit = [&stamp, &version](Json& edited) {
    edited["metadata"]["resourceVersion"] = version;
    for (const std::string_view type : std::array<std::string_view, 4>{
             "Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}) {
      const bool never = find_condition(edited, type) == nullptr;
      set_condition(edited,
                    {.type = type,
                     .status = "Unknown",
                     .reason = never ? "NodeStatusNeverUpdated" : "NodeStatusUnknown",
                     .message = never ? "Kubelet never posted node status."
                                      : "Kubelet stopped posting node status."},
                    stamp);
    }
  };
  // A conflict means news from the node; the next pass looks again.
  (void)ground_.store.update(key_of("nodes", *node), edit, ObjectStore::Part::Status, kActor);
}

void NodeLifecycle::mark_pods_not_ready(const std::string& node) {
  std::vector<Object> pods;
  pods.reserve(pods_.all().size());
  for (const auto& [key, pod] : pods_.all()) {
    if (node_of(*pod) == node && condition_status(*pod, "Ready") == "True") {
      pods.push_back(pod);
    }
  }
  const std::string stamp = ground_.stamp();
  for (const Object& pod : pods) {
    update_same(
        ground_.store, key_of("pods", *pod), uid_of(*pod),
        [&stamp](Json& edited) {
          set_condition(edited, {.type = "Ready", .status = "False", .reason = "", .message = ""},
                        stamp);
        },
        ObjectStore::Part::Status, kActor);
  }
}

void NodeLifecycle::saw_node(const Object& before, const Object& after) {
  if (after == nullptr) {
    return;
  }
  const bool same =
      before != nullptr &&
      condition_status(*before, "Ready") == condition_status(*after, "Ready") &&
      list_field(*before, {"spec", "taints"}) == list_field(*after, {"spec", "taints"});
  if (same) {
    return;
  }
  const std::string& name = name_of(*after);
  const auto place = health_.try_emplace(name).first;
  if (before == nullptr) {
    // A node of that name is new, whatever was known of another one.
    place->second.probe = ground_.loop.now();
  }
  place->second.no_schedule =
      ground_.loop.after(between(*random_, 1ms, 8ms), [this, name] { taint_no_schedule(name); });
}

void NodeLifecycle::taint_no_schedule(const std::string& name) {
  const Object node = nodes_.find({}, name);
  if (node == nullptr) {
    return;
  }
  const std::string& ready = condition_status(*node, "Ready");
  if (!ready.empty()) {
    set_taint(name, "NoSchedule", taint_for(ready));
  }
}

void NodeLifecycle::judge_no_execute(const Json& node, const std::string& observed) {
  const std::string_view wanted = taint_for(observed);
  const Json& taints = list_field(node, {"spec", "taints"});
  const bool tainted = std::any_of(taints.begin(), taints.end(), [](const Json& taint) {
    return is_lifecycle_taint(taint, "NoExecute");
  });
  const std::string& name = name_of(node);
  auto& [queue, next, timer] =
      zones_[text_field(node, {"metadata", "labels", "topology.kubernetes.io/zone"})];
  if (wanted.empty()) {
    std::erase(queue, name);
  }
  if (tainted) {
    set_taint(name, "NoExecute", wanted);
  } else if (!wanted.empty() && std::find(queue.begin(), queue.end(), name) == queue.end()) {
    queue.push_back(name);
    if (!timer.pending()) {
      const Duration wait = std::max(next - ground_.loop.now(), Duration::zero());
      timer = ground_.loop.after(
          wait + between(*random_, 0s, 100ms),
          [this, zone = text_field(node, {"metadata", "labels", "topology.kubernetes.io/zone"})] {
            serve(zone);
          });
    }
  }
}

void NodeLifecycle::serve(const std::string& zone_name) {
  Zone& zone = zones_.at(zone_name);
  if (zone.queue.empty()) {
    return;
  }
  const std::string name = zone.queue.front();
  zone.queue.pop_front();
  zone.next = ground_.loop.now() + kEvictionInterval;
  if (!zone.queue.empty()) {
    zone.timer = ground_.loop.after(kEvictionInterval, [this, zone_name] { serve(zone_name); });
  }
  const Object node = nodes_.find({}, name);
  if (node != nullptr) {
    const std::string& ready = condition_status(*node, "Ready");
    set_taint(name, "NoExecute", taint_for(ready.empty() ? "Unknown" : ready));
  }
}

void NodeLifecycle::set_taint(const std::string& name, std::string_view effect,
                              std::string_view key) {
  const Key node_key{.resource = "nodes", .space = {}, .name = name};
  if (const Object now = ground_.store.find(node_key);
      now == nullptr || carries_only(*now, effect, key)) {
    return;
  }
  const auto edit = [this, effect, key](Json& node) {
    Json taints = Json::array();
    bool there = false;
    for (const Json& taint : list_field(node, {"spec", "taints"})) {
      const bool ours = is_lifecycle_taint(taint, effect);
      there = there || (ours && text_field(taint, {"key"}) == key);
      if (!ours || text_field(taint, {"key"}) == key) {
        taints.push_back(taint);
      }
    }
    if (!there && !key.empty()) {
      taints.push_back({{"key", key}, {"effect", effect}, {"timeAdded", ground_.stamp()}});
    }
    if (taints.empty()) {
      node["spec"].erase("taints");
    } else {
      node["spec"]["taints"] = std::move(taints);
    }
  };
  (void)ground_.store.update(node_key, edit, ObjectStore::Part::Whole, kActor);
}

}  // namespace moonfence::sim
