#include "sim/checkers/proof_checker.h"

#include <algorithm>

#include "sim/ground/facts.h"
#include "sim/ground/refusals.h"
#include "sim/ground/volumes.h"
#include "sim/store/fields.h"
#include "sim/truth/called_path.h"

namespace moonfence::sim {
namespace {

// How long what a BMC has said counts.
constexpr Duration kCounts = std::chrono::seconds(10);
// From the power until the kubelet has renewed its Lease and the engine has read it: until then a
// person's word is not taken back.
constexpr Duration kUntilHeard = std::chrono::seconds(20);
// How old what the engine has read of a node and its Lease may be.
constexpr Duration kOldest = std::chrono::seconds(5);
// What a call to a server may take.
constexpr Duration kLongestCall = std::chrono::seconds(6);
// What is told of a machine is read of its node once more before, and waits for both calls.
constexpr Duration kLongestTelling = std::chrono::seconds(20);
// Between two tries to take off what was told; they double, so that none is longer than all before.
constexpr Duration kLongestPause = std::chrono::minutes(5);

constexpr std::string_view kOutOfService = "node.kubernetes.io/out-of-service";
constexpr std::string_view kGarbageCollector = "pod-garbage-collector";

bool is_out_of_service(const Json& node) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(),
                     [](const Json& taint) { return text_field(taint, {"key"}) == kOutOfService; });
}

constexpr const char* kSwitchOff = "switch_off";
constexpr const char* kIsolate = "isolate";

// For others to read: it was not said before.
bool is_told_off(const Change& change) {
  const auto says = [](const Json& node) {
    const Json* condition = find_condition(node, "FencingEvidence");
    return condition != nullptr && text_field(*condition, {"status"}) == "True" &&
           text_field(*condition, {"reason"}) == "Off";
  };
  return change.before != nullptr && !says(*change.before) && says(*change.after);
}

// What stands on a node for others to read.
struct Told {
  bool stands = false;
  bool holds = false;  // it is of this Node and boot, and the kubelet has not reported since
  bool is_off = false;
  std::string boot_id = {};
};
Told told_of(const Json& node) {
  const std::string& text =
      text_field(node, {"metadata", "annotations", "moonfence.io/fencing-evidence"});
  const Json evidence = Json::parse(text, nullptr, false);
  const Json* condition = find_condition(node, "FencingEvidence");
  const bool is_true = condition != nullptr && text_field(*condition, {"status"}) == "True";
  Told told = {.stands = !text.empty() || is_true, .boot_id = text_field(evidence, {"bootID"})};
  const Json* ready = find_condition(node, "Ready");
  told.holds = text_field(evidence, {"node"}) == uid_of(node) &&
               told.boot_id == text_field(node, {"status", "nodeInfo", "bootID"}) &&
               text_field(evidence, {"lastHeartbeatTime"}) ==
                   (ready == nullptr ? "" : text_field(*ready, {"lastHeartbeatTime"}));
  const Json& kinds = list_field(evidence, {"evidence"});
  told.is_off = std::any_of(kinds.begin(), kinds.end(),
                            [](const Json& kind) { return text_field(kind, {"kind"}) == "off"; });
  return told;
}

bool share_volume(const Container& one, const Container& other) {
  return std::any_of(one.volumes.begin(), one.volumes.end(), [&other](const std::string& volume) {
    return other.volumes.contains(volume);
  });
}

// It runs, and that is all.
bool writes_nothing(const Machines& machines, const std::string& on, const Container& container) {
  return !container.clusters.empty() &&
         std::none_of(
             container.volumes.begin(), container.volumes.end(),
             [&](const std::string& volume) { return may_write(machines, on, container, volume); });
}

}  // namespace

bool ProofChecker::is_proof_certain(const std::string& node) const {
  const BmcPlan* bmc = bmc_of(plan(), node);
  return (demands(plan(), "off") || demands_of_volumes(plan(), "off")) &&
         (bmc == nullptr || bmc->kind != BmcKind::Lying) &&
         std::none_of(plan().fence_classes.begin(), plan().fence_classes.end(),
                      [](const FenceClassPlan& each) { return each.kind == FenceKind::Lying; });
}

auto ProofChecker::storage_of_pod(const std::string& uid, const PodTruth& pod) const -> Storage {
  if (plan().fence_classes.empty()) {
    return {};
  }
  const auto find = [this](const Key& key) { return truth().store().find(key); };
  const Object object = find({.resource = "pods", .space = pod.space, .name = pod.name});
  if (object == nullptr || uid_of(*object) != uid) {
    return {.concerned = false};  // it is gone already
  }
  const auto volumes = volumes_of(*object, find);
  if (!volumes) {
    return {};  // every demand concerns it
  }
  const bool is_of_ours = std::any_of(
      volumes->begin(), volumes->end(),
      [this](const Volume& volume) { return !cluster_of(truth().machines(), volume).empty(); });
  return {.concerned = demands(plan(), "off") || is_of_ours,
          .clusters = clusters_of(truth().machines(), *object, find)};
}

auto ProofChecker::storage_of_attachment(const Json& attachment) const -> Storage {
  const Object object = truth().store().find(
      {.resource = "persistentvolumes",
       .space = {},
       .name = text_field(attachment, {"spec", "source", "persistentVolumeName"})});
  const auto volume = object == nullptr ? std::nullopt : volume_of(*object);
  const std::string cluster = volume ? cluster_of(truth().machines(), *volume) : "";
  if (cluster.empty()) {
    return {.concerned = demands(plan(), "off")};
  }
  return {.clusters = {cluster}};
}

void ProofChecker::check_power(const std::string& what, const std::string& node,
                               Duration on_its_way, const Storage& storage) const {
  const auto machine = truth().machines().by_name.find(node);
  if (!storage.concerned || !is_proof_certain(node) ||
      machine == truth().machines().by_name.end() || !machine->second.powered) {
    return;
  }
  const bool is_refused =
      !storage.clusters.empty() &&
      std::all_of(storage.clusters.begin(), storage.clusters.end(), [&](const auto& cluster) {
        return was_refused(truth().machines(), cluster, node, now(), kCounts + on_its_way);
      });
  if (is_refused) {
    return;
  }
  const Duration limit =
      demands(plan(), "attested") ? std::max(kCounts, plan().timings.boot + kUntilHeard) : kCounts;
  const Duration powered = now() - machine->second.switched;
  if (powered > limit + on_its_way) {
    accuse(rules::kPoweredNode,
           what + "the machine of " + node + " has had power for " + format_duration(powered));
  }
}

void ProofChecker::on_left(const WireRequest& request) {
  const CalledPath target = read_path(request.target);
  if (request.method == port::Method::Post && target.resource == "networkfences") {
    check_isolation(request);
  }
  const bool fails = request.method == port::Method::Patch && target.resource == "pods";
  if (request.method != port::Method::Delete && !fails) {
    return;
  }
  const std::string what = request.replica + (fails ? " fails " : " deletes ") + target.resource +
                           " " + target.name + ": ";
  if (target.resource == "pods") {
    const std::string uid = fails ? merged_uid(request.body) : uid_precondition(request.body);
    if (const PodTruth* pod = truth().pod(uid)) {
      check_power(what, pod->node, Duration::zero(), storage_of_pod(uid, *pod));
    }
  } else if (target.resource == "volumeattachments") {
    const Object attachment =
        truth().store().find({.resource = target.resource, .space = {}, .name = target.name});
    if (attachment != nullptr) {
      check_power(what, text_field(*attachment, {"spec", "nodeName"}), Duration::zero(),
                  storage_of_attachment(*attachment));
    }
  }
}

void ProofChecker::on_audit(const AuditLine& line) {
  if (line.kind == "intent" && (line.orders_off() || line.isolates())) {
    orders_.insert_or_assign(
        {line.life, line.node, line.action},
        Order{.node_uid = line.node_uid, .by_silence = lost_.contains(line.incident)});
  } else if (line.kind == "intent" && line.action == "delete_pod") {
    if (line.evidence.find("isolated (") != std::string::npos) {
      by_isolation_.insert(line.pod_uid);
    } else {
      by_isolation_.erase(line.pod_uid);
    }
  } else if (line.kind == "incident_opened" && line.reason == "node_lost") {
    lost_.insert(line.incident);
  }
}

void ProofChecker::check_down(std::string_view rule, const std::string& what, const NodeTruth& node,
                              const Order& order) const {
  if (!order.by_silence && !node.down.held_within(now(), kOldest)) {
    accuse(rule, what + "its node is not down");
  }
  if (!truth().restored_at() && is_renewed(node, order)) {
    accuse(rule, what + "its kubelet renews its Lease");
  }
}

// By the rule of fence/leases/kubelet_lease: half of what the Lease names is enough where
// Kubernetes calls the node Unknown and the Lease has not moved since; a quarter where nothing is
// heard of the machine either.
bool ProofChecker::is_renewed(const NodeTruth& node, const Order& order) const {
  const LeaseTruth* lease = truth().lease(node.name);
  if (lease == nullptr || !lease->exists) {
    return false;
  }
  const auto moved_within = [&](Duration time) {
    // What stood there when the run began may be old.
    return lease->changed_between(std::max(now() - time, Moment()), now() - kOldest);
  };
  if (order.by_silence) {
    return moved_within(lease->duration / 4);
  }
  return node.silent.holds
             ? moved_within(lease->duration / 2) ||
                   moved_within(std::min(lease->duration, now() - node.silent.changed))
             : moved_within(lease->duration);
}

void ProofChecker::on_ordered(const Life& life, const BmcPlan& bmc) {
  const std::string what = life.replica + " orders " + bmc.machine() + " off: ";
  const auto intent = orders_.find({life, bmc.node, kSwitchOff});
  if (bmc.machine() != bmc.node) {
    accuse(rules::kSwitchedOff, what + "it is not the machine of " + bmc.node);
  }
  if (!switches_off(plan()) || intent == orders_.end()) {
    accuse(rules::kSwitchedOff, what + (switches_off(plan()) ? "no intent" : "no fencer may"));
    return;
  }
  check_order(rules::kSwitchedOff, what, intent);
}

void ProofChecker::check_order(std::string_view rule, const std::string& what,
                               Orders::iterator intent) {
  const std::string replica = std::get<Life>(intent->first).replica;
  const Order order = intent->second;
  orders_.erase(intent);
  if (const NodeTruth* node = truth().node(order.node_uid)) {
    check_down(rule, what, *node, order);
  } else {
    accuse(rule, what + "its node never was");
  }
  const Object held =
      truth().store().find({.resource = "leases", .space = "moonfence", .name = "moonfence"});
  if (plan().engines > 1 && !truth().restored_at() && held != nullptr &&
      !text_field(*held, {"spec", "holderIdentity"}).starts_with(replica + "_")) {
    accuse(rule, what + "another one leads");
  }
}

void ProofChecker::check_isolation(const WireRequest& request) {
  const Json fence = Json::parse(request.body, nullptr, false);
  const std::string& node = text_field(fence, {"metadata", "annotations", "moonfence.io/node"});
  const std::string what = request.replica + " has " + node + " isolated: ";
  const auto intent = orders_.find({life_of(request), node, kIsolate});
  if (!isolates(plan()) || intent == orders_.end()) {
    accuse(rules::kIsolated, what + (isolates(plan()) ? "no intent" : "no fencer may"));
    return;
  }
  check_order(rules::kIsolated, what, intent);
  check_addresses(what, node, fence);
}

void ProofChecker::check_addresses(const std::string& what, const std::string& node,
                                   const Json& fence) const {
  const std::vector<std::string> own =
      storage_addresses(text_field(fence, {"spec", "networkFenceClassName"}), node);
  const Json& cidrs = list_field(fence, {"spec", "cidrs"});
  const bool are_own = std::all_of(cidrs.begin(), cidrs.end(), [&own](const Json& cidr) {
    return std::any_of(own.begin(), own.end(),
                       [&cidr](const std::string& address) { return cidr == address + "/32"; });
  });
  if (cidrs.empty() || !are_own || text_field(fence, {"spec", "fenceState"}) != "Fenced") {
    accuse(rules::kIsolated, what + "it is another one that would be refused: " + fence.dump());
  }
}

void ProofChecker::on_change(const Change& change) {
  if (plan().bmcs.empty() && plan().fence_classes.empty()) {
    return;
  }
  if (change.key.resource == "nodes") {
    note_told(change);
  }
  if (change.restores) {
    removed_.clear();  // what the engine has done is undone, in part
  } else if (change.key.resource == "nodes" && is_engine(change.actor) && is_told_off(change)) {
    check_power(change.actor + " tells others that a machine is off: ", change.key.name,
                kLongestTelling, {});
  } else if (change.key.resource == "nodes" && is_engine(change.actor) &&
             change.before != nullptr && !is_out_of_service(*change.before) &&
             is_out_of_service(*change.after)) {
    evicted_.insert(change.key.name);
    check_power(change.actor + " puts a node out of service: ", change.key.name, kLongestCall, {});
  } else if (change.key.resource == "pods" && change.type == ChangeType::Deleted) {
    note_removed(change);
  }
}

void ProofChecker::note_told(const Change& change) {
  const std::string& name = change.key.name;
  const Told told = change.type == ChangeType::Deleted ? Told() : told_of(*change.after);
  if (!told.stands || told.holds) {
    void_since_.erase(name);
  } else {
    void_since_.try_emplace(name, now());
  }
  const auto machine = truth().machines().by_name.find(name);
  if (told.stands && told.is_off && is_proof_certain(name) &&
      machine != truth().machines().by_name.end() && machine->second.runs() &&
      machine->second.boot_id == told.boot_id) {
    accuse(rules::kToldEvidence, "others are told that what ran in boot " + told.boot_id + " of " +
                                     name + " does not run any more, and it does");
  }
}

void ProofChecker::at_end(Duration calm_for) {
  const Moment calm = std::max(now() - calm_for, Moment());
  const Duration limit = std::min<Duration>(kLongestPause, calm - Moment()) + kLongestTelling;
  for (const auto& [name, since] : void_since_) {
    if (now() - std::max(since, calm) > limit) {
      accuse(rules::kToldEvidence, "what others are told of " + name + " has been void for " +
                                       format_duration(now() - since) + " and stands there");
    }
  }
}

void ProofChecker::note_removed(const Change& change) {
  const bool evicted =
      change.actor == kGarbageCollector && evicted_.contains(node_of(*change.after));
  const std::string& uid = uid_of(*change.after);
  if (is_engine(change.actor) || evicted) {
    removed_.insert(uid);
  }
  if (is_engine(change.actor) && by_isolation_.contains(uid)) {
    isolated_.insert(uid);
  }
}

void ProofChecker::after_cluster_turn() {
  if (removed_.empty()) {
    return;
  }
  for (const auto& [name, machine] : truth().machines().by_name) {
    for (const auto& [uid, container] : machine.containers) {
      if (removed_.contains(uid)) {
        look_at(machine, container);
      }
    }
  }
}

void ProofChecker::look_at(const Machine& machine, const Container& ghost) {
  const bool of_volumes_alone = plan().settings.contains(std::string(kVolumeProofWord));
  if ((of_volumes_alone && ghost.clusters.empty()) ||
      writes_nothing(truth().machines(), machine.name, ghost)) {
    return;
  }
  for (const auto& [name, other] : truth().machines().by_name) {
    for (const auto& [uid, container] : other.containers) {
      const bool is_its_successor = container.space == ghost.space && container.pod == ghost.pod;
      if (name == machine.name || (!is_its_successor && !share_volume(ghost, container)) ||
          !overlaps_.emplace(ghost.pod_uid, uid).second) {
        continue;
      }
      news_ = "pod " + ghost.space + "/" + ghost.pod + ", which the engine deleted, runs on " +
              machine.name + " while " + container.space + "/" + container.pod + " runs on " + name;
      if (is_proof_certain(machine.name)) {
        accuse(rules::kOverlap, news_);
      }
    }
  }
}

}  // namespace moonfence::sim
