#include "sim/controllers/kubelet.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

// nodeStatusUpdateFrequency: how often a kubelet looks whether its status has changed; and
// nodeStatusReportFrequency: how often it posts it although it has not.
constexpr Duration kStatusTick = 10s;
constexpr Duration kStatusReport = 5min;

}  // namespace

Kubelet::Kubelet(const Ground& ground, NodePlan plan, const KubeletViews& views)
    : ground_(ground),
      plan_(std::move(plan)),
      views_(views),
      actor_("kubelet " + plan_.name),
      random_(ground.random.fork(actor_)),
      machine_(ground.machines.by_name.at(plan_.name)) {
  machine_.kubelet_started = ground_.now() - 24h;
  // Settled long ago: somewhere within their periods.
  posted_ = ground_.loop.now() - between(*random_, 0s, kStatusReport - kStatusTick);
  lease_ = ground_.loop.after(between(*random_, 0s, ground_.timings.lease_renewal),
                              [this] { renew_lease(); });
  status_ = ground_.loop.after(between(*random_, 0s, kStatusTick), [this] { tick(); });
}

bool Kubelet::is_awake() const {
  return machine_.runs() && machine_.kubelet && !machine_.frozen;
}

bool Kubelet::is_at_work() const {
  return is_awake() && machine_.healthy;
}

void Kubelet::adopt(const Object& pod) {
  if (is_mirror(*pod)) {
    const std::string uid =
        text_field(*pod, {"metadata", "annotations", "kubernetes.io/config.hash"});
    mirrors_[path_of(*pod)] = *pod;
    machine_.containers[uid] = {
        .pod_uid = uid, .space = space_of(*pod), .pod = name_of(*pod), .volumes = {}};
    return;
  }
  Work& work = works_[uid_of(*pod)];
  work.pod = pod;
  work.volumes = volumes_of(*pod, [this](const Key& key) {
                   return ground_.store.find(key);
                 }).value_or(std::vector<Volume>());
  run(work);
}

// --- the machine

void Kubelet::change(std::string_view what) {
  if (machine_.sound() != was_sound_) {
    was_sound_ = machine_.sound();
    machine_.impaired_since = ground_.loop.now();
  }
  if (machine_.answers() != did_answer_) {
    did_answer_ = machine_.answers();
    machine_.answers_since = ground_.loop.now();
  }
  if (machine_.powered != was_powered_) {
    was_powered_ = machine_.powered;
    machine_.switched = ground_.loop.now();
  }
  ground_.tell(Happening::Kind::Machine, plan_.name, what);
  if (ground_.machines.on_change) {
    ground_.machines.on_change();
  }
}

void Kubelet::power_off() {
  if (!machine_.powered) {
    return;
  }
  machine_.powered = false;
  machine_.booting = false;
  boots_.cancel();
  machine_.containers.clear();
  works_.clear();
  mirror_timers_.clear();
  fall_silent();
  change("power off");
}

void Kubelet::cut_off() {
  if (!machine_.connected) {
    return;
  }
  machine_.connected = false;
  fall_silent();
  change("cut off from the API server");
}

void Kubelet::stop_kubelet() {
  if (!machine_.kubelet) {
    return;
  }
  machine_.kubelet = false;
  fall_silent();
  change("kubelet stopped");
}

void Kubelet::freeze() {
  if (machine_.frozen || machine_.booting) {
    return;
  }
  machine_.frozen = true;
  fall_silent();
  change("processes frozen");
}

void Kubelet::turn_not_ready() {
  if (!machine_.healthy) {
    return;
  }
  machine_.healthy = false;
  change("container runtime down");
  if (is_awake() && machine_.connected) {
    status_ = ground_.loop.after(between(*random_, 0s, 100ms), [this] { tick(); });
  }
}

void Kubelet::take_ready_away() {
  machine_.healthy = false;
  unheard_ = true;
  change("Ready condition taken away");
  const auto edit = [](Json& node) {
    Json& conditions = node["status"]["conditions"];
    const auto ready = std::find_if(
        conditions.begin(), conditions.end(),
        [](const Json& condition) { return text_field(condition, {"type"}) == "Ready"; });
    if (ready != conditions.end()) {
      conditions.erase(ready);
    }
  };
  (void)ground_.store.update({.resource = "nodes", .space = {}, .name = plan_.name}, edit,
                             ObjectStore::Part::Status, actor_);
}

void Kubelet::be_called_unknown() {
  unheard_ = true;
  change("called unknown by mistake");
  const auto edit = [this](Json& node) {
    set_condition(node,
                  {.type = "Ready",
                   .status = "Unknown",
                   .reason = "NodeStatusUnknown",
                   .message = "Kubelet stopped posting node status."},
                  ground_.stamp());
  };
  (void)ground_.store.update({.resource = "nodes", .space = {}, .name = plan_.name}, edit,
                             ObjectStore::Part::Status, "node-controller");
}

void Kubelet::heal() {
  if (machine_.sound() && !unheard_) {
    return;
  }
  const bool was_off = !machine_.powered;
  const bool restarted = was_off || !machine_.kubelet;
  machine_.powered = true;
  machine_.connected = true;
  machine_.kubelet = true;
  machine_.healthy = true;
  machine_.frozen = false;
  unheard_ = false;
  // A kubelet registers its node when it starts, and never again.
  is_registering_ = is_registering_ || restarted;
  const bool boots = machine_.booting || (was_off && begin_to_boot());
  change(was_off ? "power on" : "well again");
  if (!boots) {
    come_up(was_off, restarted);
  }
}

void Kubelet::switch_on() {
  if (machine_.powered) {
    return;
  }
  machine_.powered = true;
  machine_.kubelet = true;
  machine_.frozen = false;
  is_registering_ = true;
  const bool boots = begin_to_boot();
  change("power on");
  if (!boots) {
    come_up(true, true);
  }
}

bool Kubelet::begin_to_boot() {
  if (ground_.timings.boot == Duration::zero()) {
    return false;
  }
  machine_.booting = true;
  boots_ = ground_.loop.after(ground_.timings.boot, [this] {
    machine_.booting = false;
    machine_.kubelet = true;  // whatever happened meanwhile
    change("has booted");
    come_up(true, true);
  });
  return true;
}

void Kubelet::come_up(bool booted, bool restarted) {
  if (booted) {
    boot();
  } else if (restarted) {
    restarted_ = true;
    knows_pods_ = false;
  }
  if (restarted) {
    machine_.kubelet_started = ground_.now();
    runtime_asked_.reset();
    starts_untold_ = true;
  }
  if (!machine_.connected) {
    return;
  }
  if (std::exchange(starts_untold_, false)) {
    tell_start();
  }
  reconnect();
}

void Kubelet::tell_start() {
  const std::string name = plan_.name + "." + make_uuid(*random_);
  (void)ground_.store.create(
      "events", "default",
      {{"apiVersion", "events.k8s.io/v1"},
       {"kind", "Event"},
       {"metadata", {{"name", name}, {"namespace", "default"}}},
       {"regarding", {{"kind", "Node"}, {"name", plan_.name}, {"uid", plan_.name}}},
       {"reason", "Starting"},
       {"note", "Starting kubelet."},
       {"type", "Normal"},
       {"reportingController", "kubelet"},
       {"deprecatedSource", {{"component", "kubelet"}, {"host", plan_.name}}},
       {"deprecatedCount", 1},
       {"deprecatedFirstTimestamp", ground_.stamp()},
       {"deprecatedLastTimestamp", ground_.stamp()}},
      actor_);
}

void Kubelet::register_again() {
  is_registering_ = true;
  if (machine_.sound()) {
    reconnect();
  } else {
    heal();
  }
}

void Kubelet::boot() {
  machine_.boot_id = make_uuid(*random_);
  works_.clear();
  knows_pods_ = false;
  for (const auto& [path, pod] : mirrors_) {
    const std::string uid =
        text_field(pod, {"metadata", "annotations", "kubernetes.io/config.hash"});
    machine_.containers[uid] = {
        .pod_uid = uid, .space = space_of(pod), .pod = name_of(pod), .volumes = {}};
  }
}

// --- heartbeats

void Kubelet::fall_silent() {
  lease_.cancel();
  status_.cancel();
  relist_.cancel();
}

// Its loops find their way back one by one, in any order.
void Kubelet::reconnect() {
  lease_ = ground_.loop.after(between(*random_, 1ms, 1s), [this] { renew_lease(); });
  status_ = ground_.loop.after(between(*random_, 1ms, 1s), [this] { tick(); });
  relist_ = ground_.loop.after(between(*random_, 10ms, 2s), [this] { relist(); });
}

void Kubelet::renew_lease() {
  lease_ = ground_.loop.after(about(*random_, ground_.timings.lease_renewal, 0.05),
                              [this] { renew_lease(); });
  const Key key{.resource = "leases", .space = "kube-node-lease", .name = plan_.name};
  const std::string stamp = format_rfc3339_micro(wall_now());
  const auto edit = [&stamp](Json& lease) { lease["spec"]["renewTime"] = stamp; };
  if (ground_.store.find(key) != nullptr) {
    (void)ground_.store.update(key, edit, ObjectStore::Part::Whole, actor_);
    return;
  }
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = plan_.name});
  if (node != nullptr) {
    (void)ground_.store.create("leases", key.space, lease_blueprint(*node, ground_.timings, stamp),
                               actor_);
  }
}

void Kubelet::tick() {
  status_ = ground_.loop.after(about(*random_, kStatusTick, 0.2), [this] { tick(); });
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = plan_.name});
  if (node == nullptr) {
    if (is_registering_) {
      register_node();
    }
    return;
  }
  is_registering_ = false;
  if (!is_posted(*node) || ground_.loop.now() - posted_ > kStatusReport) {
    post_status();
  }
}

void Kubelet::register_node() {
  is_registering_ = false;
  posted_ = ground_.loop.now();
  Json node = node_blueprint(plan_, machine_, format_rfc3339(wall_now()));
  node["status"]["volumesInUse"] = volumes_in_use();
  // Until the taint controller has seen that it is Ready, nothing is scheduled there.
  node["spec"]["taints"].push_back({{"key", kNotReady}, {"effect", "NoSchedule"}});
  (void)ground_.store.create("nodes", {}, std::move(node), actor_);
}

std::vector<std::string> Kubelet::volumes_in_use() const {
  std::set<std::string> names;
  for (const auto& [uid, work] : works_) {
    if (work.stage != Stage::Stopped) {
      for (const Volume& volume : work.volumes) {
        if (!work.unreported.contains(volume.unique_name())) {
          names.insert(volume.unique_name());
        }
      }
    }
  }
  return {names.begin(), names.end()};
}

bool Kubelet::is_posted(const Json& node) const {
  return condition_status(node, "Ready") == (machine_.healthy ? "True" : "False") &&
         text_field(node, {"status", "nodeInfo", "bootID"}) == machine_.boot_id &&
         (!knows_pods_ || list_field(node, {"status", "volumesInUse"}) == Json(volumes_in_use()));
}

void Kubelet::post_status() {
  if (!is_awake() || !machine_.connected || unheard_) {
    return;
  }
  posted_ = ground_.loop.now();
  const std::string stamp = format_rfc3339(wall_now());
  const auto edit = [this, &stamp](Json& node) {
    set_node_conditions(node, machine_.healthy, stamp);
    node["status"]["nodeInfo"]["bootID"] = machine_.boot_id;
    if (!knows_pods_) {
      return;  // what stands there may still be true
    }
    Json in_use = volumes_in_use();
    if (in_use.empty()) {
      node["status"].erase("volumesInUse");
    } else {
      node["status"]["volumesInUse"] = std::move(in_use);
    }
  };
  (void)ground_.store.update({.resource = "nodes", .space = {}, .name = plan_.name}, edit,
                             ObjectStore::Part::Status, actor_);
}

}  // namespace moonfence::sim
