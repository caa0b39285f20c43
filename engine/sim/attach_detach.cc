#include "sim/attach_detach.h"

#include <algorithm>
#include <utility>

#include "sim/blueprints.h"
#include "sim/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "attachdetach-controller";
constexpr Duration kLoopPeriod = 100ms;
constexpr Duration kOperationTimeOut = 2min;
constexpr Duration kBackOffFirst = 500ms;
constexpr Duration kBackOffLast = 122s;

// Failed, Succeeded, or being deleted with no container running.
bool is_terminated(const Json& pod) {
  if (is_finished(pod)) {
    return true;
  }
  const Json& statuses = list_field(pod, {"status", "containerStatuses"});
  return is_terminating(pod) && std::none_of(statuses.begin(), statuses.end(), [](const Json& one) {
           return find_field(one, {"state", "running"}) != nullptr;
         });
}

bool names(const Json& list, const std::string& volume) {
  return std::find(list.begin(), list.end(), volume) != list.end();
}

const Json& in_use(const Json& node) {
  return list_field(node, {"status", "volumesInUse"});
}

bool is_attached(const Json& attachment) {
  const Json* attached = find_field(attachment, {"status", "attached"});
  return attached != nullptr && *attached == true;
}

}  // namespace

AttachDetach::AttachDetach(const Ground& ground, const AttachDetachViews& views)
    : ground_(ground), views_(views), random_(ground.random.fork("attach-detach")) {
  phase_ = ground_.loop.now() + between(*random_, 0s, kLoopPeriod);
  for (const auto& [key, pod] : views_.pods.all()) {
    want(*pod);
  }
  for (const auto& [key, node] : views_.nodes.all()) {
    adopt(*node);
  }
  views_.pods.on_change(
      [this](const Object& before, const Object& after) { saw_pod(before, after); });
  views_.nodes.on_change(
      [this](const Object& before, const Object& after) { saw_node(before, after); });
  views_.attachments.on_change(
      [this](const Object& before, const Object& after) { saw_attachment(before, after); });
  views_.claims.on_change([this](const Object&, const Object&) { retry_unresolved(); });
  views_.volumes.on_change([this](const Object&, const Object&) { retry_unresolved(); });
  verify_ = ground_.loop.after(between(*random_, 0s, ground_.timings.attach_detach_resync),
                               [this] { verify(); });
}

void AttachDetach::adopt(const Json& node) {
  for (const Json& entry : list_field(node, {"status", "volumesAttached"})) {
    const std::string& name = text_field(entry, {"name"});
    const auto volume = volumes_.find(name);
    if (volume != volumes_.end()) {
      attached_[{.volume = name, .node = name_of(node)}] = {.volume = volume->second,
                                                            .mounted = names(in_use(node), name)};
    }
  }
}

// --- what it sees

Object AttachDetach::find(const Key& key) const {
  const Informer& informer = key.resource == "persistentvolumes" ? views_.volumes : views_.claims;
  return informer.find(key.space, key.name);
}

void AttachDetach::want(const Json& pod) {
  const std::string& node = node_of(pod);
  const std::string& uid = uid_of(pod);
  if (node.empty() || is_terminated(pod) || list_field(pod, {"spec", "volumes"}).empty() ||
      uses_.contains(uid)) {
    return;
  }
  // Of a node that it does not know it wants nothing.
  const auto volumes = views_.nodes.find({}, node) == nullptr
                           ? std::nullopt
                           : volumes_of(pod, [this](const Key& key) { return find(key); });
  if (!volumes) {
    unresolved_.insert(uid);
    return;
  }
  unresolved_.erase(uid);
  std::vector<Spot>& spots = uses_[uid];
  spots.reserve(volumes->size());
  for (const Volume& volume : *volumes) {
    const Spot spot{.volume = volume.unique_name(), .node = node};
    volumes_.try_emplace(spot.volume, volume);
    wanted_[spot].insert(uid);
    spots.push_back(spot);
  }
  wake();
}

void AttachDetach::unwant(const std::string& pod_uid) {
  unresolved_.erase(pod_uid);
  const auto uses = uses_.find(pod_uid);
  if (uses == uses_.end()) {
    return;
  }
  for (const Spot& spot : uses->second) {
    const auto wanted = wanted_.find(spot);
    wanted->second.erase(pod_uid);
    if (wanted->second.empty()) {
      wanted_.erase(wanted);
      refused_.erase(spot);
    }
  }
  uses_.erase(uses);
  wake();
}

void AttachDetach::saw_pod(const Object& before, const Object& after) {
  if (after == nullptr || is_terminated(*after)) {
    unwant(uid_of(after == nullptr ? *before : *after));
  } else {
    want(*after);
  }
}

void AttachDetach::retry_unresolved() {
  const std::set<std::string> again = unresolved_;
  for (const std::string& uid : again) {
    if (const Object pod = views_.pods.find_uid(uid)) {
      want(*pod);
    }
  }
}

void AttachDetach::saw_node(const Object& before, const Object& after) {
  if (after == nullptr) {
    return;  // the last list that it posted goes on counting
  }
  const std::string& name = name_of(*after);
  if (before == nullptr) {
    unreported_.insert(name);
    retry_unresolved();
  }
  for (auto& [spot, attached] : attached_) {
    if (spot.node == name) {
      attached.mounted = names(in_use(*after), spot.volume);
    }
  }
  const bool same = before != nullptr && in_use(*before) == in_use(*after) &&
                    condition_status(*before, "Ready") == condition_status(*after, "Ready") &&
                    list_field(*before, {"status", "volumesAttached"}) ==
                        list_field(*after, {"status", "volumesAttached"});
  if (!same) {
    wake();
  }
}

void AttachDetach::saw_attachment(const Object& before, const Object& after) {
  const Json& attachment = after == nullptr ? *before : *after;
  const std::string& name = name_of(attachment);
  const auto found =
      std::find_if(operations_.begin(), operations_.end(),
                   [&name](const auto& entry) { return entry.second.attachment == name; });
  if (found == operations_.end()) {
    return;
  }
  const Spot spot = found->first;
  if (found->second.attaches) {
    await_attachment(spot);
  } else if (after == nullptr) {
    succeed(spot);
  }
}

// --- the loop

void AttachDetach::wake() {
  const Duration past = (ground_.loop.now() - phase_) % kLoopPeriod;
  wake_at(ground_.loop.now() + kLoopPeriod - past);
}

void AttachDetach::wake_at(Moment moment) {
  if (loop_.pending() && loop_due_ <= moment) {
    return;
  }
  loop_due_ = moment;
  loop_ = ground_.loop.after(moment - ground_.loop.now(), [this] { reconcile(); });
}

void AttachDetach::reconcile() {
  detach_unwanted();
  attach_wanted();
  const std::set<std::string> nodes = std::exchange(unreported_, {});
  for (const std::string& node : nodes) {
    report(node);
  }
}

bool AttachDetach::is_node_ready(const std::string& node) const {
  const Object object = views_.nodes.find({}, node);
  return object != nullptr && condition_status(*object, "Ready") == "True";
}

bool AttachDetach::is_held_back(const std::string& volume) {
  const auto back_off = back_offs_.find(volume);
  if (back_off == back_offs_.end() || back_off->second.until <= ground_.loop.now()) {
    return false;
  }
  wake_at(back_off->second.until);
  return true;
}

void AttachDetach::detach_unwanted() {
  const Moment now = ground_.loop.now();
  std::vector<std::pair<Spot, bool>> due;
  due.reserve(attached_.size());
  for (auto& [spot, attached] : attached_) {
    if (wanted_.contains(spot)) {
      attached.detach_asked.reset();
      continue;
    }
    if (operations_.contains(spot) || is_held_back(spot.volume)) {
      continue;
    }
    attached.detach_asked = attached.detach_asked.value_or(now);
    const Moment patience_ends = *attached.detach_asked + ground_.timings.attach_detach_timeout;
    const bool forced = patience_ends < now && !is_node_ready(spot.node);
    if (attached.mounted && !forced) {
      if (patience_ends >= now) {
        wake_at(patience_ends + kLoopPeriod);
      }
      continue;
    }
    due.emplace_back(spot, forced);
  }
  for (const auto& [spot, forced] : due) {
    detach(spot, forced);
  }
}

void AttachDetach::detach(const Spot& spot, bool forced) {
  Attached& attached = attached_.at(spot);
  attached.reported = false;
  report(spot.node);
  Operation& operation = operations_[spot];
  operation = {.attaches = false,
               .spot = spot,
               .volume = attached.volume,
               .attachment = attachment_name(attached.volume, spot.node),
               .time_out = ground_.loop.after(kOperationTimeOut, [this, spot] { fail(spot); })};
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = spot.node});
  if (!forced && node != nullptr && names(in_use(*node), spot.volume)) {
    fail(spot);
    return;
  }
  if (forced) {
    ground_.tell(Happening::Kind::Volume, attached.volume.persistent_volume,
                 "force detach from " + spot.node);
  }
  const auto removed = ground_.store.remove(
      {.resource = "volumeattachments", .space = {}, .name = operation.attachment}, {}, kActor);
  if (!removed || !removed->marked_only) {
    succeed(spot);
  }
}

std::string AttachDetach::elsewhere(const Spot& spot) const {
  for (auto other = attached_.lower_bound({.volume = spot.volume, .node = {}});
       other != attached_.end() && other->first.volume == spot.volume; ++other) {
    if (other->first.node != spot.node) {
      return other->first.node;
    }
  }
  // One operation at a time for a volume that only one node may have.
  for (auto other = operations_.lower_bound({.volume = spot.volume, .node = {}});
       other != operations_.end() && other->first.volume == spot.volume; ++other) {
    if (other->first.node != spot.node) {
      return other->first.node;
    }
  }
  return {};
}

void AttachDetach::attach_wanted() {
  std::vector<Spot> due;
  due.reserve(wanted_.size());
  for (const auto& [spot, pods] : wanted_) {
    if (attached_.contains(spot) || operations_.contains(spot)) {
      continue;
    }
    due.push_back(spot);
  }
  for (const Spot& spot : due) {
    const Volume volume = volumes_.at(spot.volume);
    const std::string other = volume.shared ? std::string() : elsewhere(spot);
    if (!other.empty()) {
      if (refused_.insert(spot).second) {
        ground_.tell(Happening::Kind::Volume, volume.persistent_volume,
                     "Multi-Attach error on " + spot.node, "still attached to " + other);
      }
      continue;
    }
    if (!is_held_back(spot.volume)) {
      attach(spot, volume);
    }
  }
}

void AttachDetach::attach(const Spot& spot, const Volume& volume) {
  Operation& operation = operations_[spot];
  operation = {.attaches = true,
               .spot = spot,
               .volume = volume,
               .attachment = attachment_name(volume, spot.node),
               .time_out = ground_.loop.after(kOperationTimeOut, [this, spot] { fail(spot); })};
  const auto made = ground_.store.create("volumeattachments", {},
                                         attachment_blueprint(volume, spot.node), kActor);
  if (!made) {
    await_attachment(spot);  // there already, perhaps done
  }
}

void AttachDetach::await_attachment(const Spot& spot) {
  const Object attachment = views_.attachments.find({}, operations_.at(spot).attachment);
  if (attachment == nullptr) {
    return;
  }
  if (is_terminating(*attachment)) {
    fail(spot);
  } else if (is_attached(*attachment)) {
    succeed(spot);
  }
}

void AttachDetach::succeed(const Spot& spot) {
  const auto place = operations_.find(spot);
  const Operation operation = std::move(place->second);
  operations_.erase(place);
  back_offs_.erase(spot.volume);
  refused_.erase(spot);
  if (operation.attaches) {
    attached_[spot] = {.volume = operation.volume};
    unreported_.insert(spot.node);
  } else {
    attached_.erase(spot);
  }
  wake();
}

void AttachDetach::fail(const Spot& spot) {
  const auto place = operations_.find(spot);
  const bool attaches = place->second.attaches;
  operations_.erase(place);
  if (!attaches) {
    attached_.at(spot).reported = true;
    unreported_.insert(spot.node);
  }
  BackOff& back_off = back_offs_[spot.volume];
  back_off.delay = back_off.delay == Duration::zero() ? kBackOffFirst
                                                      : std::min(2 * back_off.delay, kBackOffLast);
  back_off.until = ground_.loop.now() + back_off.delay;
  wake();
}

// What it believes attached and what the attachments say.
void AttachDetach::verify() {
  verify_ = ground_.loop.after(ground_.timings.attach_detach_resync, [this] { verify(); });
  std::vector<Spot> lost;
  lost.reserve(attached_.size());
  for (const auto& [spot, attached] : attached_) {
    const Object attachment =
        views_.attachments.find({}, attachment_name(attached.volume, spot.node));
    if (!operations_.contains(spot) && (attachment == nullptr || !is_attached(*attachment))) {
      lost.push_back(spot);
    }
  }
  for (const Spot& spot : lost) {
    attached_.erase(spot);
    unreported_.insert(spot.node);
  }
  if (!lost.empty()) {
    wake();
  }
}

void AttachDetach::report(const std::string& node) {
  Json list = Json::array();
  for (const auto& [spot, attached] : attached_) {
    if (spot.node == node && attached.reported) {
      list.push_back({{"name", spot.volume}, {"devicePath", ""}});
    }
  }
  const auto edit = [&list](Json& edited) {
    if (list.empty()) {
      edited["status"].erase("volumesAttached");
    } else {
      edited["status"]["volumesAttached"] = list;
    }
  };
  (void)ground_.store.update({.resource = "nodes", .space = {}, .name = node}, edit,
                             ObjectStore::Part::Status, kActor);
}

}  // namespace moonfence::sim
