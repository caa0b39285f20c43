#include "sim/controllers/attach_detach.h"

#include <algorithm>
#include <utility>

#include "sim/ground/blueprints.h"
#include "sim/ground/facts.h"

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kActor = "attachdetach-controller";
constexpr Duration kLoopPeriod = 100ms;
constexpr Duration kOperationTimeOut = 2min;
constexpr Duration kBackOffFirst = 500ms;
constexpr Duration kBackOffLast = 122s;
// Each look at an attachment comes 5 % later than the one before, give or take a tenth of that.
constexpr Duration kPollFirst = 500ms;
constexpr Duration kPollLast = 7s;

// Since which minor version it does what.
constexpr int kPolls = 21;           // before, it watched the attachment (pull request 97834)
constexpr int kAdoptsOthers = 21;    // attachments that no node lists, as uncertain (96617)
constexpr int kForcesOnlyDown = 24;  // before, after six minutes also from healthy nodes (110721)
constexpr int kOutOfService = 26;    // the taint node.kubernetes.io/out-of-service (KEP 2268)
constexpr int kDoubts = 29;          // a detach that failed makes uncertain (120595)

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

bool has_error(const Json& attachment, std::string_view error) {
  return find_field(attachment, {"status", error}) != nullptr;
}

}  // namespace

AttachDetach::AttachDetach(const Ground& ground, const AttachDetachViews& views)
    : ground_(ground), views_(views), random_(ground.random.fork("attach-detach")) {
  phase_ = ground_.loop.now() + between(*random_, 0s, kLoopPeriod);
  learn_volumes();
  for (const auto& [key, node] : views_.nodes.all()) {
    adopt(*node);
  }
  if (ground_.kubernetes >= kAdoptsOthers) {
    for (const auto& [key, attachment] : views_.attachments.all()) {
      adopt_attachment(*attachment);
    }
  }
  for (const auto& [key, pod] : views_.pods.all()) {
    want(*pod);
  }
  views_.pods.on_change(
      [this](const Object& before, const Object& after) { saw_pod(before, after); });
  views_.nodes.on_change(
      [this](const Object& before, const Object& after) { saw_node(before, after); });
  views_.attachments.on_change(
      [this](const Object& before, const Object& after) { saw_attachment(before, after); });
  views_.claims.on_change([this](const Object&, const Object&) { retry_unresolved(); });
  views_.volumes.on_change([this](const Object&, const Object&) { retry_unresolved(); });
  if (ground_.timings.attach_detach_resync > Duration::zero()) {
    verify_ = ground_.loop.after(between(*random_, 0s, ground_.timings.attach_detach_resync),
                                 [this] { verify(); });
  }
}

void AttachDetach::learn_volumes() {
  for (const auto& [key, object] : views_.volumes.all()) {
    if (const auto volume = volume_of(*object)) {
      volumes_.try_emplace(volume->unique_name(), *volume);
    }
  }
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

void AttachDetach::adopt_attachment(const Json& attachment) {
  const Object object =
      views_.volumes.find({}, text_field(attachment, {"spec", "source", "persistentVolumeName"}));
  const auto volume = object == nullptr ? std::nullopt : volume_of(*object);
  if (volume) {
    attached_.try_emplace(
        {.volume = volume->unique_name(), .node = text_field(attachment, {"spec", "nodeName"})},
        Attached{.volume = *volume, .reported = false, .certain = false});
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
  if (ground_.kubernetes >= kPolls) {
    return;  // it looks by itself
  }
  const Spot lane = found->first;  // what follows may remove the entry
  if (after != nullptr) {
    look_at(lane);
  } else if (found->second.attaches) {
    fail(lane);  // deleted under its hands
  } else {
    succeed(lane);
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

AttachDetach::Spot AttachDetach::lane_of(const Spot& spot, const Volume& volume) {
  return {.volume = spot.volume, .node = volume.shared ? spot.node : std::string()};
}

bool AttachDetach::is_held_back(const Spot& lane, bool attaches) {
  const auto back_off = back_offs_.find(lane);
  if (back_off == back_offs_.end() || back_off->second.attaches != attaches ||
      back_off->second.until <= ground_.loop.now()) {
    return false;
  }
  wake_at(back_off->second.until);
  return true;
}

void AttachDetach::detach_unwanted() {
  std::vector<std::pair<Spot, bool>> due;
  due.reserve(attached_.size());
  for (auto& [spot, attached] : attached_) {
    if (wanted_.contains(spot)) {
      attached.detach_asked.reset();
      continue;
    }
    const Spot lane = lane_of(spot, attached.volume);
    if (operations_.contains(lane) || is_held_back(lane, false)) {
      continue;
    }
    bool verified = true;
    if (may_detach(spot, attached, verified)) {
      due.emplace_back(spot, verified);
    }
  }
  for (const auto& [spot, verified] : due) {
    if (!operations_.contains(lane_of(spot, attached_.at(spot).volume))) {
      detach(spot, verified);
    }
  }
}

// `verified`: whether the node is asked once more before.
bool AttachDetach::may_detach(const Spot& spot, Attached& attached, bool& verified) {
  const Moment now = ground_.loop.now();
  attached.detach_asked = attached.detach_asked.value_or(now);
  const bool has_patience = ground_.timings.attach_detach_timeout > Duration::zero();
  const Moment patience_ends = *attached.detach_asked + ground_.timings.attach_detach_timeout;
  const bool timed_out = has_patience && patience_ends < now;
  const bool forced =
      timed_out && (ground_.kubernetes < kForcesOnlyDown || !is_node_ready(spot.node));
  const Object node = views_.nodes.find({}, spot.node);
  const bool out_of_service = ground_.kubernetes >= kOutOfService && node != nullptr &&
                              has_taint(*node, "node.kubernetes.io/out-of-service", "NoExecute");
  verified = !timed_out && !out_of_service;
  if (attached.mounted && !forced && !out_of_service) {
    if (has_patience && !timed_out) {
      wake_at(patience_ends + kLoopPeriod);
    }
    return false;
  }
  return true;
}

void AttachDetach::detach(const Spot& spot, bool verified) {
  Attached& attached = attached_.at(spot);
  attached.reported = false;
  report(spot.node);
  const Spot lane = lane_of(spot, attached.volume);
  const Volume volume = attached.volume;
  const std::string attachment = begin(spot, volume, false).attachment;
  const Object node = ground_.store.find({.resource = "nodes", .space = {}, .name = spot.node});
  if (verified && node != nullptr && names(in_use(*node), spot.volume)) {
    fail(lane);
    return;
  }
  if (!verified) {
    ground_.tell(Happening::Kind::Volume, volume.persistent_volume,
                 "force detach from " + spot.node);
  }
  const auto removed = ground_.store.remove(
      {.resource = "volumeattachments", .space = {}, .name = attachment}, {}, kActor);
  if (!removed) {
    if (removed.error().code == 404) {
      succeed(lane);
    } else {
      fail(lane);
    }
  } else if (!removed->marked_only && ground_.kubernetes < kPolls) {
    succeed(lane);
  }
}

std::string AttachDetach::elsewhere(const Spot& spot) const {
  for (auto other = attached_.lower_bound({.volume = spot.volume, .node = {}});
       other != attached_.end() && other->first.volume == spot.volume; ++other) {
    if (other->first.node != spot.node && other->second.certain) {
      return other->first.node;
    }
  }
  return {};
}

void AttachDetach::attach_wanted() {
  std::vector<Spot> due;
  due.reserve(wanted_.size());
  for (const auto& [spot, pods] : wanted_) {
    const auto attached = attached_.find(spot);
    if ((attached != attached_.end() && attached->second.certain) ||
        operations_.contains(lane_of(spot, volumes_.at(spot.volume)))) {
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
    const Spot lane = lane_of(spot, volume);
    if (!operations_.contains(lane) && !is_held_back(lane, true)) {
      attach(spot, volume);
    }
  }
}

AttachDetach::Operation& AttachDetach::begin(const Spot& spot, const Volume& volume,
                                             bool attaches) {
  const Spot lane = lane_of(spot, volume);
  if (const auto back_off = back_offs_.find(lane);
      back_off != back_offs_.end() && back_off->second.attaches != attaches) {
    back_offs_.erase(back_off);
  }
  Operation& operation = operations_[lane];
  operation = {.attaches = attaches,
               .spot = spot,
               .volume = volume,
               .attachment = attachment_name(volume, spot.node),
               .time_out = ground_.loop.after(kOperationTimeOut, [this, lane] { fail(lane); })};
  if (ground_.kubernetes >= kPolls) {
    operation.poll_delay = kPollFirst;
    operation.poll = ground_.loop.after(kPollFirst, [this, lane] { poll(lane); });
  }
  return operation;
}

void AttachDetach::attach(const Spot& spot, const Volume& volume) {
  (void)begin(spot, volume, true);
  const auto made = ground_.store.create("volumeattachments", {},
                                         attachment_blueprint(volume, spot.node), kActor);
  if (!made && ground_.kubernetes < kPolls) {
    look_at(lane_of(spot, volume));  // there already, perhaps done
  }
}

// What the attachment says of the operation under way.
void AttachDetach::look_at(const Spot& lane) {
  const Operation& operation = operations_.at(lane);
  const Object attachment = views_.attachments.find({}, operation.attachment);
  if (!operation.attaches) {
    if (attachment == nullptr) {
      succeed(lane);
    } else if (has_error(*attachment, "detachError")) {
      fail(lane);
    }
  } else if (attachment != nullptr) {  // else it has not come into view yet
    if (is_terminating(*attachment) || has_error(*attachment, "attachError")) {
      fail(lane);
    } else if (is_attached(*attachment)) {
      succeed(lane);
    }
  }
}

void AttachDetach::poll(const Spot& lane) {
  look_at(lane);
  const auto place = operations_.find(lane);
  if (place == operations_.end()) {
    return;
  }
  Operation& operation = place->second;
  operation.poll_delay = std::min(operation.poll_delay + operation.poll_delay / 20, kPollLast);
  operation.poll =
      ground_.loop.after(about(*random_, operation.poll_delay, 0.1), [this, lane] { poll(lane); });
}

void AttachDetach::succeed(const Spot& lane) {
  const auto place = operations_.find(lane);
  const Operation operation = std::move(place->second);
  operations_.erase(place);
  back_offs_.erase(lane);
  refused_.erase(operation.spot);
  if (operation.attaches) {
    Attached& attached =
        attached_.try_emplace(operation.spot, Attached{.volume = operation.volume}).first->second;
    attached.reported = true;
    attached.certain = true;
    unreported_.insert(operation.spot.node);
  } else {
    attached_.erase(operation.spot);
  }
  wake();
}

void AttachDetach::fail(const Spot& lane) {
  const auto place = operations_.find(lane);
  const Operation operation = std::move(place->second);
  operations_.erase(place);
  if (operation.attaches) {
    attached_.try_emplace(
        operation.spot, Attached{.volume = operation.volume, .reported = false, .certain = false});
  } else if (ground_.kubernetes >= kDoubts) {
    attached_.at(operation.spot).certain = false;
  } else {
    attached_.at(operation.spot).reported = true;
    unreported_.insert(operation.spot.node);
  }
  BackOff& back_off = back_offs_[lane];
  back_off.attaches = operation.attaches;
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
    if (attached.certain && !operations_.contains(lane_of(spot, attached.volume)) &&
        (attachment == nullptr || !is_attached(*attachment))) {
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
    if (spot.node == node && attached.reported && attached.certain) {
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
