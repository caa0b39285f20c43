#include "sim/checkers/proof_checker.h"

#include <algorithm>

#include "sim/ground/facts.h"
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

constexpr std::string_view kOutOfService = "node.kubernetes.io/out-of-service";
constexpr std::string_view kGarbageCollector = "pod-garbage-collector";

bool is_out_of_service(const Json& node) {
  const Json& taints = list_field(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(),
                     [](const Json& taint) { return text_field(taint, {"key"}) == kOutOfService; });
}

// For others to read: it was not said before.
bool is_told_off(const Change& change) {
  const auto says = [](const Json& node) {
    const Json* condition = find_condition(node, "FencingEvidence");
    return condition != nullptr && text_field(*condition, {"status"}) == "True" &&
           text_field(*condition, {"reason"}) == "Off";
  };
  return change.before != nullptr && !says(*change.before) && says(*change.after);
}

bool share_volume(const Container& one, const Container& other) {
  return std::any_of(one.volumes.begin(), one.volumes.end(), [&other](const std::string& volume) {
    return other.volumes.contains(volume);
  });
}

}  // namespace

bool ProofChecker::is_proof_certain(const std::string& node) const {
  const BmcPlan* bmc = bmc_of(plan(), node);
  return demands(plan(), "off") && (bmc == nullptr || bmc->kind != BmcKind::Lying);
}

void ProofChecker::check_power(const std::string& what, const std::string& node,
                               Duration on_its_way) const {
  const auto machine = truth().machines().by_name.find(node);
  if (!is_proof_certain(node) || machine == truth().machines().by_name.end() ||
      !machine->second.powered) {
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
  if (request.method != port::Method::Delete) {
    return;
  }
  const CalledPath target = read_path(request.target);
  const std::string what =
      request.replica + " deletes " + target.resource + " " + target.name + ": ";
  if (target.resource == "pods") {
    if (const PodTruth* pod = truth().pod(uid_precondition(request.body))) {
      check_power(what, pod->node, Duration::zero());
    }
  } else if (target.resource == "volumeattachments") {
    const Object attachment =
        truth().store().find({.resource = target.resource, .space = {}, .name = target.name});
    if (attachment != nullptr) {
      check_power(what, text_field(*attachment, {"spec", "nodeName"}), Duration::zero());
    }
  }
}

void ProofChecker::on_audit(const AuditLine& line) {
  if (line.kind == "intent" && line.action == "switch_off") {
    orders_.insert_or_assign(
        {line.life, line.node},
        Order{.node_uid = line.node_uid, .by_silence = lost_.contains(line.incident)});
  } else if (line.kind == "incident_opened" && line.reason == "node_lost") {
    lost_.insert(line.incident);
  }
}

void ProofChecker::check_down(const std::string& what, const NodeTruth& node,
                              const Order& order) const {
  if (!order.by_silence && !node.down.held_within(now(), kOldest)) {
    accuse(rules::kSwitchedOff, what + "its node is not down");
  }
  if (!truth().restored_at() && is_renewed(node, order)) {
    accuse(rules::kSwitchedOff, what + "its kubelet renews its Lease");
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
  const auto intent = orders_.find({life, bmc.node});
  if (bmc.machine() != bmc.node) {
    accuse(rules::kSwitchedOff, what + "it is not the machine of " + bmc.node);
  }
  if (!switches_off(plan()) || intent == orders_.end()) {
    accuse(rules::kSwitchedOff, what + (switches_off(plan()) ? "no intent" : "no fencer may"));
    return;
  }
  const Order order = intent->second;
  orders_.erase(intent);
  if (const NodeTruth* node = truth().node(order.node_uid)) {
    check_down(what, *node, order);
  } else {
    accuse(rules::kSwitchedOff, what + "its node never was");
  }
  const Object held =
      truth().store().find({.resource = "leases", .space = "moonfence", .name = "moonfence"});
  if (plan().engines > 1 && !truth().restored_at() && held != nullptr &&
      !text_field(*held, {"spec", "holderIdentity"}).starts_with(life.replica + "_")) {
    accuse(rules::kSwitchedOff, what + "another one leads");
  }
}

void ProofChecker::on_change(const Change& change) {
  if (plan().bmcs.empty()) {
    return;
  }
  if (change.restores) {
    removed_.clear();  // what the engine has done is undone, in part
  } else if (change.key.resource == "nodes" && is_engine(change.actor) && is_told_off(change)) {
    check_power(change.actor + " tells others that a machine is off: ", change.key.name,
                kLongestTelling);
  } else if (change.key.resource == "nodes" && is_engine(change.actor) &&
             change.before != nullptr && !is_out_of_service(*change.before) &&
             is_out_of_service(*change.after)) {
    evicted_.insert(change.key.name);
    check_power(change.actor + " puts a node out of service: ", change.key.name, kLongestCall);
  } else if (change.key.resource == "pods" && change.type == ChangeType::Deleted) {
    note_removed(change);
  }
}

void ProofChecker::note_removed(const Change& change) {
  const bool evicted =
      change.actor == kGarbageCollector && evicted_.contains(node_of(*change.after));
  if (is_engine(change.actor) || evicted) {
    removed_.insert(uid_of(*change.after));
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
