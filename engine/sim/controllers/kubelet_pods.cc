#include <algorithm>
#include <utility>

#include "sim/controllers/kubelet.h"
#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"
#include "sim/ground/refusals.h"

// What a kubelet does with the pods that are bound to its node.

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kVolumesPoll = 100ms;

Duration grace_of(const Json& pod) {
  const auto grace = number_field(pod, {"metadata", "deletionGracePeriodSeconds"});
  return std::chrono::seconds(grace.value_or(30));
}

Duration stop_time_of(const Json& pod) {
  const std::string& text = text_field(pod, {"metadata", "annotations", kStopTime});
  return parse_duration(text).value_or(Duration::zero());
}

}  // namespace

void Kubelet::saw_pod(const Object& before, const Object& after) {
  if (!may_write()) {
    return;  // relist() tells later
  }
  const Json& pod = after == nullptr ? *before : *after;
  if (is_mirror(pod)) {
    keep_mirror(pod);
    return;
  }
  const std::string& uid = uid_of(pod);
  const auto found = works_.find(uid);
  if (after == nullptr) {
    if (found != works_.end()) {
      found->second.gone = true;
      look_at(uid);
    }
    return;
  }
  if (found == works_.end() && is_finished(*after)) {
    return;
  }
  works_[uid].pod = after;
  look_at(uid);
}

void Kubelet::saw_node() {
  saw_attachment();
}

void Kubelet::saw_attachment() {
  for (auto& [uid, work] : works_) {
    if (work.stage == Stage::Waiting) {
      mount(uid);
    }
  }
}

// What it finds mounted and the node's volumesAttached does not name it takes for a volume that
// needs no attaching.
void Kubelet::forget_detached() {
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = plan_.name});
  if (node == nullptr) {
    return;
  }
  std::set<std::string> attached;
  for (const Json& entry : list_field(*node, {"status", "volumesAttached"})) {
    attached.insert(text_field(entry, {"name"}));
  }
  for (auto& [uid, work] : works_) {
    if (work.stage != Stage::Running && work.stage != Stage::Stopping) {
      continue;
    }
    for (const Volume& volume : work.volumes) {
      if (!attached.contains(volume.unique_name())) {
        work.unreported.insert(volume.unique_name());
      }
    }
  }
}

void Kubelet::relist() {
  knows_pods_ = true;
  if (std::exchange(restarted_, false)) {
    forget_detached();
  }
  for (auto& [uid, work] : works_) {
    const Object pod = views_.pods.find_uid(uid);
    work.gone = pod == nullptr;
    work.pod = pod == nullptr ? work.pod : pod;
  }
  for (const auto& [key, pod] : views_.pods.all()) {
    if (node_of(*pod) == plan_.name && !is_mirror(*pod) && !is_finished(*pod)) {
      works_[uid_of(*pod)].pod = pod;
    }
  }
  std::vector<std::string> uids;
  uids.reserve(works_.size());
  for (auto& [uid, work] : works_) {
    uids.push_back(uid);
    // All volumes before any is posted: a list with some of them would say that the others are
    // free.
    if (work.stage == Stage::Unresolved && !work.gone && !is_terminating(*work.pod)) {
      work.volumes = resolved(*work.pod).value_or(std::vector<Volume>());
    }
  }
  for (const std::string& uid : uids) {
    look_at(uid);
  }
  for (const auto& [path, pod] : mirrors_) {
    keep_mirror(pod);
  }
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = plan_.name});
  if (node != nullptr && !is_posted(*node)) {
    post_status();
  }
}

void Kubelet::look_at(const std::string& uid) {
  Work& work = works_.at(uid);
  if (!is_at_work()) {
    return;
  }
  if (work.gone || is_terminating(*work.pod) || is_finished(*work.pod)) {
    stop(uid);
    return;
  }
  switch (work.stage) {
    case Stage::Unresolved:
      resolve(uid);
      break;
    case Stage::Waiting:
      mount(uid);
      break;
    case Stage::Running:
      post_running(work);
      break;
    case Stage::Starting:
    case Stage::Stopping:
    case Stage::Stopped:
      break;
  }
}

void Kubelet::resolve(const std::string& uid) {
  Work& work = works_.at(uid);
  const auto volumes = resolved(*work.pod);
  if (!volumes) {
    work.timer = ground_.loop.after(1s, [this, uid] { look_at(uid); });
    return;
  }
  work.volumes = *volumes;
  work.stage = Stage::Waiting;
  // A kubelet mounts only what it has reported in use. A real one reports at its status tick; this
  // one at once, as the stand-ins on the real control plane.
  if (!work.volumes.empty()) {
    post_status();
  }
  mount(uid);
}

std::optional<std::vector<Volume>> Kubelet::resolved(const Json& pod) const {
  return volumes_of(pod, [this](const Key& key) { return ground_.store.find(key); });
}

bool Kubelet::is_attached(const Work& work) const {
  if (work.volumes.empty()) {
    return true;
  }
  const Object node = views_.nodes.find({}, plan_.name);
  if (node == nullptr) {
    return false;
  }
  const Json& attached = list_field(*node, {"status", "volumesAttached"});
  return std::all_of(work.volumes.begin(), work.volumes.end(), [&](const Volume& volume) {
    const std::string name = volume.unique_name();
    if (std::none_of(attached.begin(), attached.end(),
                     [&name](const Json& entry) { return text_field(entry, {"name"}) == name; })) {
      return false;
    }
    const Object attachment = views_.attachments.find({}, attachment_name(volume, plan_.name));
    const Json* is =
        attachment == nullptr ? nullptr : find_field(*attachment, {"status", "attached"});
    return is != nullptr && *is == true && !is_terminating(*attachment);
  });
}

// The storage serves the machine no volume of it: nothing is mounted.
bool Kubelet::is_refused(const Work& work) const {
  return std::any_of(work.volumes.begin(), work.volumes.end(), [this](const Volume& volume) {
    const std::string cluster = cluster_of(ground_.machines, volume);
    return !cluster.empty() && sim::is_refused(ground_.machines, cluster, plan_.name);
  });
}

void Kubelet::mount(const std::string& uid) {
  Work& work = works_.at(uid);
  if (!may_write() || !is_attached(work) || is_refused(work)) {
    return;
  }
  work.stage = Stage::Starting;
  const Duration poll =
      work.volumes.empty() ? Duration::zero() : between(*random_, 0s, kVolumesPoll);
  work.timer = ground_.loop.after(poll + about(*random_, ground_.timings.container_start, 0.2),
                                  [this, uid] { start(uid); });
}

void Kubelet::start(const std::string& uid) {
  Work& work = works_.at(uid);
  if (!is_at_work()) {
    work.stage = Stage::Waiting;
    return;
  }
  run(work);
  post_running(work);
}

void Kubelet::run(Work& work) {
  work.stage = Stage::Running;
  Container container{.pod_uid = uid_of(*work.pod),
                      .space = space_of(*work.pod),
                      .pod = name_of(*work.pod),
                      .volumes = {}};
  for (const Volume& volume : work.volumes) {
    container.volumes.insert(volume.handle);
    if (const std::string cluster = cluster_of(ground_.machines, volume); !cluster.empty()) {
      container.clusters[volume.handle] = cluster;
    }
  }
  machine_.containers[container.pod_uid] = std::move(container);
}

void Kubelet::post_running(const Work& work) {
  const Object now = ground_.store.find(key_of("pods", *work.pod));
  if (!may_write() || now == nullptr || uid_of(*now) != uid_of(*work.pod) ||
      (phase_of(*now) == "Running" && condition_status(*now, "Ready") == "True")) {
    return;
  }
  const std::string stamp = ground_.stamp();
  update_same(
      ground_.store, key_of("pods", *now), uid_of(*now),
      [&stamp](Json& pod) { set_running(pod, stamp); }, ObjectStore::Part::Status, actor_);
}

void Kubelet::stop(const std::string& uid) {
  Work& work = works_.at(uid);
  switch (work.stage) {
    case Stage::Unresolved:
    case Stage::Waiting:
    case Stage::Starting:
      work.timer.cancel();
      work.stage = Stage::Stopped;
      finish(uid);
      break;
    case Stage::Running: {
      work.stage = Stage::Stopping;
      const Duration grace = work.gone ? Duration(30s) : grace_of(*work.pod);
      work.timer = ground_.loop.after(std::min(stop_time_of(*work.pod), grace), [this, uid] {
        // A kubelet that stopped meanwhile stops nothing; it takes this up again when it is back.
        Work& stopping = works_.at(uid);
        if (!is_at_work()) {
          stopping.stage = Stage::Running;
          return;
        }
        machine_.containers.erase(uid);
        stopping.stage = Stage::Stopped;
        finish(uid);
      });
      break;
    }
    case Stage::Stopping:
      break;
    case Stage::Stopped:
      finish(uid);
      break;
  }
}

// Its containers have stopped and its volumes are unmounted.
void Kubelet::finish(const std::string& uid) {
  if (!may_write()) {
    return;
  }
  const auto place = works_.find(uid);
  const Work work = std::move(place->second);
  works_.erase(place);
  if (!work.gone && !is_finished(*work.pod)) {
    if (!list_field(*work.pod, {"metadata", "finalizers"}).empty()) {
      post_stopped(*work.pod);
    }
    DeleteOptions options;
    options.uid = uid;
    options.grace_seconds = 0;
    (void)ground_.store.remove(key_of("pods", *work.pod), options, actor_);
  }
  if (!work.volumes.empty()) {
    post_status();
  }
}

// Only of a pod that something else keeps: any other is gone in the same moment.
void Kubelet::post_stopped(const Json& pod) {
  const std::string stamp = ground_.stamp();
  update_same(
      ground_.store, key_of("pods", pod), uid_of(pod),
      [&stamp](Json& edited) { set_stopped(edited, stamp); }, ObjectStore::Part::Status, actor_);
}

// A shadow that was deleted is made again: the static pod runs on.
void Kubelet::keep_mirror(const Json& pod) {
  const std::string path = path_of(pod);
  const auto shadow = mirrors_.find(path);
  if (shadow == mirrors_.end() || mirror_timers_[path].pending()) {
    return;
  }
  const Key key = key_of("pods", pod);
  mirror_timers_[path] = ground_.loop.after(1s, [this, key, path] {
    const Object now = ground_.store.find(key);
    const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = plan_.name});
    if (!may_write() || node == nullptr) {
      return;
    }
    if (now != nullptr && !is_terminating(*now)) {
      if (condition_status(*now, "Ready") != "True") {
        (void)ground_.store.update(
            key, [this](Json& edited) { set_running(edited, ground_.stamp()); },
            ObjectStore::Part::Status, actor_);
      }
      return;
    }
    if (now != nullptr) {
      DeleteOptions options;
      options.uid = uid_of(*now);
      options.grace_seconds = 0;
      (void)ground_.store.remove(key, options, actor_);
    }
    Json again = mirrors_.at(path);
    set_controller(again, "Node", *node);
    set_running(again, ground_.stamp());
    (void)ground_.store.create("pods", key.space, std::move(again), actor_);
  });
}

}  // namespace moonfence::sim
