#include "sim/checkers/delete_checker.h"

#include <algorithm>
#include <utility>

#include "sim/ground/facts.h"
#include "sim/store/fields.h"
#include "sim/truth/called_path.h"

namespace moonfence::sim {
namespace {

// A reading is good for a second, on a slow server for twice what its slowest read took.
constexpr Duration kFreshest = std::chrono::seconds(1);
constexpr Duration kOldest = std::chrono::seconds(5);
// How old the list may be by which a node is put out of service, and the way of the answer.
constexpr Duration kListTime = std::chrono::seconds(6);
constexpr int kServesOutOfService = 26;
// Whoever asks a kernel that long has heard it: a link is opened, or found dead and opened again.
constexpr Duration kHeard = std::chrono::seconds(10);
// When a Lease was written the engine knows by the versions that the store had reached when, for
// which it asks now and then.
constexpr Duration kLeaseKnown = std::chrono::seconds(20);
// Replicas tell each other in a ConfigMap how to ask them.
constexpr Duration kHeardElsewhere = std::chrono::seconds(60);
// One that is silent is asked once a second; what left before may be on its way.
constexpr Duration kHeardAgain = std::chrono::seconds(2);
// What a machine takes to boot, until its kubelet has said something.
constexpr Duration kBooting = std::chrono::seconds(20);
// After a store went back in time all of its kubelets have said something anew.
constexpr Duration kForgetting = std::chrono::seconds(60);

bool is_down(const Json& node) {
  const Json* conditions = find_field(node, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return true;
  }
  return std::none_of(conditions->begin(), conditions->end(), [](const Json& condition) {
    return text_field(condition, {"type"}) == "Ready" &&
           text_field(condition, {"status"}) == "True";
  });
}

constexpr std::string_view kOutOfService = "node.kubernetes.io/out-of-service";

// By what the patch tests and what it writes; the intent may say something else.
bool adds_out_of_service(const std::string& body) {
  const auto holds = [](const Json& operation) {
    const Json& taints = list_field(operation, {"value"});
    return std::any_of(taints.begin(), taints.end(), [](const Json& taint) {
      return text_field(taint, {"key"}) == kOutOfService;
    });
  };
  bool before = false;
  bool after = false;
  const Json operations = Json::parse(body, nullptr, false);
  for (const Json& operation : operations.is_array() ? operations : Json::array()) {
    if (text_field(operation, {"path"}) == "/spec/taints") {
      (text_field(operation, {"op"}) == "test" ? before : after) = holds(operation);
    }
  }
  return after && !before;
}

// Nobody deletes it for a taint that its node has then, and no volume is pulled from under it.
bool stays(const Json& pod) {
  const Json& volumes = list_field(pod, {"spec", "volumes"});
  if (std::any_of(volumes.begin(), volumes.end(), [](const Json& volume) {
        return volume.contains("persistentVolumeClaim") || volume.contains("ephemeral");
      })) {
    return false;
  }
  const Json& tolerations = list_field(pod, {"spec", "tolerations"});
  const auto tolerates_for_ever = [&tolerations](std::string_view key, std::string_view value) {
    const Json taint = {{"key", key}, {"value", value}, {"effect", "NoExecute"}};
    const auto first =
        std::find_if(tolerations.begin(), tolerations.end(),
                     [&taint](const Json& toleration) { return tolerates(toleration, taint); });
    return first != tolerations.end() && !first->contains("tolerationSeconds");
  };
  return tolerates_for_ever(kOutOfService, "nodeshutdown") &&
         tolerates_for_ever("node.kubernetes.io/unreachable", "") &&
         tolerates_for_ever("node.kubernetes.io/not-ready", "");
}

}  // namespace

void DeleteChecker::on_started(const Life& life) {
  known_[life] = {};
  kernels_.set_running(life.replica, true, now());
}

void DeleteChecker::on_paused(const Life& life, bool paused) {
  kernels_.set_running(life.replica, !paused, now());
}

void DeleteChecker::on_link_cut(const std::string& replica, const std::string& node, bool cut) {
  kernels_.set_link_cut(replica, node, cut, now());
}

void DeleteChecker::on_partitioned(const std::string& replica, bool partitioned) {
  kernels_.set_partitioned(replica, partitioned, now());
}

// What left is on its way.
void DeleteChecker::on_died(const Life& life, bool /*told*/) {
  kernels_.set_running(life.replica, false, now());
}

void DeleteChecker::on_audit(const AuditLine& line) {
  Known& known = known_[line.life];
  if (line.kind == "intent") {
    known.intents.insert_or_assign(line.subject(), line);
  } else if (line.kind == "incident_opened") {
    known.opened.insert_or_assign(line.incident, now());
  }
}

void DeleteChecker::on_ended(const WireRequest& request) {
  if (request.method == port::Method::Get && request.lane == port::Lane::Writes) {
    Duration& slowest = known_[life_of(request)].slowest_read;
    slowest = std::max(slowest, now() - request.issued);
  }
}

void DeleteChecker::on_left(const WireRequest& request) {
  if (request.method == port::Method::Get) {
    return;
  }
  lifetime_ = std::clamp<Duration>(known_[life_of(request)].slowest_read * 2, kFreshest, kOldest);
  const CalledPath target = read_path(request.target);
  if (request.method == port::Method::Delete) {
    if (target.resource == "pods" && target.subresource.empty()) {
      check_delete(request, known_[life_of(request)]);
      return;
    }
    if (target.resource == "volumeattachments" && target.subresource.empty()) {
      check_detach(request, known_[life_of(request)]);
      return;
    }
    if (target.resource == "configmaps" && target.space == "moonfence" &&
        target.name.starts_with("moonfence-incident-")) {
      return;
    }
  } else if (request.method == port::Method::Patch && target.resource == "pods" &&
             target.subresource == "status") {
    check_failing(request, known_[life_of(request)]);
    return;
  } else if (request.method == port::Method::Patch && target.resource == "nodes" &&
             target.subresource == "status") {
    if (tells_evidence(request.target, request.body)) {
      return;  // of the node nothing else may change: TaintChecker
    }
    check_release(request, known_[life_of(request)]);
    return;
  } else if (request.method == port::Method::Patch && target.resource == "nodes" &&
             target.subresource.empty()) {
    check_patch(request, known_[life_of(request)]);
    return;
  } else if ((request.method == port::Method::Post && target.resource == "networkfences" &&
              isolates(plan())) ||  // ProofChecker's concern
             target.resource == "events" ||
             target.resource == "selfsubjectaccessreviews" ||  // a question
             (target.resource == "leases" && target.space == "moonfence") ||
             (target.resource == "configmaps" && target.space == "moonfence" &&
              target.name != "moonfence-policies")) {
    return;
  }
  accuse(rules::kExpectedWrite,
         std::string(port::to_string(request.method)) + " " + request.target);
}

void DeleteChecker::check_delete(const WireRequest& request, const Known& known) {
  const CalledPath target = read_path(request.target);
  check_pod(request.replica + " deletes pod " + target.space + "/" + target.name + ": ",
            uid_precondition(request.body), request, known);
}

// To a Job and to the volumes it is as good as a deletion. It changes nothing else.
void DeleteChecker::check_failing(const WireRequest& request, const Known& known) {
  const CalledPath target = read_path(request.target);
  const std::string what =
      request.replica + " fails pod " + target.space + "/" + target.name + ": ";
  const Json patch = Json::parse(request.body, nullptr, false);
  const Json* status = patch.is_object() ? find_field(patch, {"status"}) : nullptr;
  const bool only_fails = status != nullptr && patch.size() == 2 && status->size() == 2 &&
                          text_field(*status, {"phase"}) == "Failed" &&
                          list_field(*status, {"conditions"}).size() == 1;
  if (!only_fails) {
    accuse(rules::kExpectedWrite, what + request.body);
  }
  check_pod(what, merged_uid(request.body), request, known);
}

void DeleteChecker::check_pod(const std::string& what, const std::string& uid,
                              const WireRequest& request, const Known& known) {
  const AuditLine* intent = intent_of(what, uid, request, known);
  if (intent == nullptr) {
    return;
  }
  const auto opened = known.opened.find(intent->incident);
  const auto listed = known.listed.find(uid);
  if (opened == known.opened.end() || listed == known.listed.end() ||
      listed->second < opened->second) {
    accuse(rules::kListedPod, what + "UID " + uid + " was not listed in its incident");
  }
  const auto signal = check_node(what, *intent, known);
  const PodTruth* pod = truth().pod(uid);
  if (pod == nullptr) {
    accuse(rules::kListedPod, what + "there never was a pod of UID " + uid);
    return;
  }
  if (signal == Signal::Down) {
    check_kernel(what, *intent, pod, known);
  }
  check_reach(what, *pod, *intent, signal, known);
}

void DeleteChecker::check_detach(const WireRequest& request, const Known& known) {
  const CalledPath target = read_path(request.target);
  const std::string what = request.replica + " deletes attachment " + target.name + ": ";
  if (const AuditLine* intent = intent_of(what, uid_precondition(request.body), request, known);
      intent != nullptr) {
    const auto signal = check_node(what, *intent, known);
    if (signal == Signal::Succeeded) {
      accuse(rules::kDeletedNode, what + "it may be the successor's");
    } else if (signal == Signal::Down) {
      check_kernel(what, *intent, nullptr, known);
    }
  }
}

// One intent of several: they are about one node and were recorded together.
void DeleteChecker::check_release(const WireRequest& request, const Known& known) {
  const std::string node = read_path(request.target).name;
  const std::string what = request.replica + " releases volumes of node " + node + ": ";
  const auto intent =
      std::find_if(known.intents.begin(), known.intents.end(), [&node](const auto& entry) {
        return entry.second.node == node && entry.second.reason == "policy_releases";
      });
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent");
    return;
  }
  check_exists(what, check_node(what, intent->second, known));
}

// What it changes is seen in the store (TaintChecker). A taint goes on only where a pod is to go.
void DeleteChecker::check_patch(const WireRequest& request, const Known& known) {
  const std::string what =
      request.replica + " patches node " + read_path(request.target).name + ": ";
  const std::string uid = tested_uid(request.body);
  if (uid.empty()) {
    accuse(rules::kUidPrecondition, what + "without a test of its UID");
    return;
  }
  const auto intent = known.intents.find(uid);
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent for UID " + uid);
  } else if (!intent->second.lifts() && !intent->second.is_of_silence()) {
    check_exists(what, check_down(what, intent->second, known));
    if (intent->second.action == "taint_out_of_service" || adds_out_of_service(request.body)) {
      check_eviction(what, intent->second, known);
    }
  }
}

// What the taint does is Kubernetes' doing, and the engine's to answer for.
void DeleteChecker::check_eviction(const std::string& what, const AuditLine& intent,
                                   const Known& known) {
  const NodeTruth* node = truth().node(intent.node_uid);
  if (plan().kubernetes < kServesOutOfService) {
    accuse(rules::kOutOfService, what + "this version does not serve it");
  }
  if (node != nullptr && !node->silent.held_within(now(), lifetime_) && !stands_still(*node)) {
    accuse(rules::kOutOfService, what + "its kubelet is not silent");
  }
  for (const auto& [uid, pod] : truth().pods()) {
    const Object object =
        truth().store().find({.resource = "pods", .space = pod.space, .name = pod.name});
    if (pod.node != intent.node || object == nullptr || uid_of(*object) != uid ||
        now() - pod.bound < kListTime) {
      continue;
    }
    if ((!pod.marked || now() - *pod.marked < kListTime) && stays(*object)) {
      continue;
    }
    if (!may_be_evicted(pod, known)) {
      accuse(rules::kOutOfService, what + "no binding lets pod " + pod.name + " be evicted");
    }
  }
}

bool DeleteChecker::may_be_evicted(const PodTruth& pod, const Known& known) const {
  if (pod.space == "kube-system" || pod.space == "kube-public" || pod.space == "kube-node-lease") {
    return false;
  }
  for (const auto& reach : known.policies.in_force(truth().policy_edits(), now())) {
    for (const BindingReach& binding : reach->bindings) {
      const bool of_daemon_set = pod.controller == "DaemonSet";
      if (binding.enforces && binding.out_of_service &&
          (binding.everywhere || binding.spaces.contains(pod.space)) &&
          (of_daemon_set || binding.bare_pods || !pod.controller.empty()) &&
          (of_daemon_set || binding.finished_pods || !pod.finished.holds ||
           now() - pod.finished.changed < kListTime)) {
        return true;
      }
    }
  }
  return false;
}

// The intent that a deletion of one object, by its UID, rests on; null when it breaks a rule.
const AuditLine* DeleteChecker::intent_of(const std::string& what, const std::string& uid,
                                          const WireRequest& request, const Known& known) {
  if (read_path(request.target).name.empty()) {
    accuse(rules::kNoCollections, what + request.target);
    return nullptr;
  }
  if (uid.empty()) {
    accuse(rules::kUidPrecondition, what + "without a UID precondition");
    return nullptr;
  }
  const auto intent = known.intents.find(uid);
  if (intent == known.intents.end()) {
    accuse(rules::kIntentFirst, what + "no intent for UID " + uid);
    return nullptr;
  }
  return &intent->second;
}

auto DeleteChecker::check_node(const std::string& what, const AuditLine& intent, const Known& known)
    -> std::optional<Signal> {
  const NodeTruth* node = truth().node(intent.node_uid);
  const auto signal = check_down(what, intent, known);
  const bool may_be_gone = was_read(intent, known, Signal::Deleted) && is_absent(intent.node);
  if (signal == Signal::Down && !may_be_gone && !node->tainted.held_within(now(), lifetime_)) {
    accuse(rules::kTaintedNode, what + "node " + intent.node + " carries no taint");
  }
  return signal;
}

bool DeleteChecker::goes_by_source(const Known& known) const {
  const bool answers = !plan().responses.empty();
  for (const auto& reach : known.policies.in_force(truth().policy_edits(), now())) {
    for (const BindingReach& binding : reach->bindings) {
      if (binding.enforces && (binding.by_source || (binding.unread && answers))) {
        return true;
      }
    }
  }
  return false;
}

void DeleteChecker::check_exists(const std::string& what, std::optional<Signal> signal) {
  if (signal == Signal::Deleted || signal == Signal::Succeeded) {
    accuse(rules::kDeletedNode, what + "it was read as deleted, or as another one");
  }
}

bool DeleteChecker::was_read(const AuditLine& intent, const Known& known, Signal as) const {
  const auto read = known.readings.find(intent.node);
  return read != known.readings.end() &&
         std::any_of(read->second.begin(), read->second.end(), [&](const Reading& reading) {
           const bool own = reading.uid == intent.node_uid;
           const bool fits = as == Signal::Deleted     ? reading.absent
                             : as == Signal::Succeeded ? !reading.uid.empty() && !own
                                                       : reading.down && own;
           return fits && now() - reading.left <= lifetime_;
         });
}

// No node of that name, for a second at most.
bool DeleteChecker::is_absent(const std::string& name) const {
  return std::none_of(truth().nodes().begin(), truth().nodes().end(), [&](const auto& entry) {
    return entry.second.name == name && entry.second.exists.held_for(now(), lifetime_);
  });
}

// One that was read as down and then as deleted, both within the second, may pass for either.
auto DeleteChecker::check_down(const std::string& what, const AuditLine& intent, const Known& known)
    -> std::optional<Signal> {
  const NodeTruth* node = truth().node(intent.node_uid);
  if (goes_by_source(known)) {
    if (node != nullptr && goes_by_silence(known)) {
      check_lost(what, *node, intent);
    }
    return std::nullopt;  // what another source should have said nobody here knows
  }
  const bool as_down = was_read(intent, known, Signal::Down);
  // One that was made anew within the second was read as deleted too.
  const bool as_succeeded = was_read(intent, known, Signal::Succeeded);
  if (!as_down && !as_succeeded && was_read(intent, known, Signal::Deleted)) {
    if (node != nullptr && is_absent(node->name)) {
      return Signal::Deleted;
    }
    accuse(rules::kRecoveredNode, what + "node " + intent.node + " is not deleted");
    return std::nullopt;
  }
  if (!as_down && as_succeeded) {
    if (node != nullptr && !node->exists.holds) {
      return Signal::Succeeded;
    }
    accuse(rules::kRecoveredNode, what + "node " + intent.node + " has no successor");
    return std::nullopt;
  }
  if (!as_down) {
    accuse(rules::kLiveRead, what + "node " + intent.node + " was not read as down within 1 s");
  }
  if (node == nullptr || !node->down.held_within(now(), lifetime_)) {
    accuse(rules::kRecoveredNode,
           what + "node " + intent.node + " is not down" +
               (node == nullptr ? ", it never was"
                                : " since " + format_duration(now() - node->down.changed)));
    return std::nullopt;
  }
  check_lease(what, *node);
  check_attested(what, *node);
  return Signal::Down;
}

// A machine that has power again says so when its kubelet is there: until then nobody can know. Nor
// can anybody who is shown a store as it was before.
void DeleteChecker::check_attested(const std::string& what, const NodeTruth& node) const {
  const auto proof = plan().settings.find("proof");
  const auto machine = truth().machines().by_name.find(node.name);
  const auto restored = truth().restored_at();
  if (proof == plan().settings.end() || proof->second != "attested" ||
      machine == truth().machines().by_name.end() ||
      (restored && now() - *restored < kForgetting)) {
    return;
  }
  const Duration powered = now() - machine->second.impaired_since;
  if (!machine->second.powered && !is_attested(node.name)) {
    accuse(rules::kAttestedNode, what + "nobody has attested that " + node.name + " is off");
  }
  if (machine->second.powered && powered >= kBooting) {
    accuse(rules::kAttestedNode,
           what + "the machine of " + node.name + " has had power for " + format_duration(powered));
  }
}

// What was renewed within the last second may have come after the reading.
void DeleteChecker::check_lease(const std::string& what, const NodeTruth& node) const {
  const LeaseTruth* lease = truth().lease(node.name);
  if (!node.silent.holds || lease == nullptr || !lease->exists) {
    return;
  }
  const Moment since = std::max(node.silent.changed, now() - lease->duration);
  if (lease->changed_between(since, now() - lifetime_)) {
    accuse(rules::kLivingLease, what + "the kubelet of " + node.name + " renews its Lease");
  }
}

void DeleteChecker::check_lost(const std::string& what, const NodeTruth& node,
                               const AuditLine& intent) const {
  const auto heard = kernels_.heard_for(truth().machines(), node.name, intent.life.replica, now());
  if (heard && *heard >= kHeardAgain) {
    accuse(rules::kLostNode,
           what + "the kernel of " + node.name + " has answered for " + format_duration(*heard));
  }
}

// Whoever hears a machine does not switch it off.
void DeleteChecker::on_ordered(const Life& life, const BmcPlan& bmc) {
  const auto heard = kernels_.heard_for(truth().machines(), bmc.node, life.replica, now());
  if (detects(plan()) && heard && *heard >= kHeard) {
    accuse(rules::kSwitchedOff, life.replica + " orders " + bmc.node +
                                    " off: its kernel has answered for " + format_duration(*heard));
  }
}

// Of all bindings in force that go by a source, each goes by what the engine hears.
bool DeleteChecker::goes_by_silence(const Known& known) const {
  const auto in_force = known.policies.in_force(truth().policy_edits(), now());
  return std::all_of(in_force.begin(), in_force.end(), [](const auto& reach) {
    return std::all_of(reach->bindings.begin(), reach->bindings.end(),
                       [](const BindingReach& binding) { return binding.lost; });
  });
}

void DeleteChecker::check_kernel(const std::string& what, const AuditLine& intent,
                                 const PodTruth* pod, const Known& known) const {
  const NodeTruth& node = *truth().node(intent.node_uid);
  const LeaseTruth* lease = truth().lease(node.name);
  const auto restored = truth().restored_at();
  // For all that anybody can know the kubelet has renewed its Lease when the store went back.
  if (restored && lease != nullptr && now() - *restored < lease->duration + kHeard) {
    return;
  }
  if (!detects(plan()) || !node.down.holds || !is_dead(node) || accepts_living_kernel(pod, known)) {
    return;
  }
  const auto heard = kernels_.heard_for(truth().machines(), node.name, intent.life.replica, now());
  if (heard && *heard >= kHeard) {
    accuse(rules::kLivingKernel,
           what + "the kernel of " + node.name + " has answered for " + format_duration(*heard));
  }
  const auto elsewhere =
      kernels_.heard_elsewhere_for(truth().machines(), node.name, intent.life.replica, now());
  if (elsewhere && *elsewhere >= kHeardElsewhere) {
    accuse(rules::kLivingKernel, what + "the kernel of " + node.name +
                                     " has answered another replica for " +
                                     format_duration(*elsewhere));
  }
}

bool DeleteChecker::accepts_living_kernel(const PodTruth* pod, const Known& known) const {
  const auto accepts = [pod](const BindingReach& binding) {
    return binding.enforces && binding.live_kernel &&
           (pod == nullptr || binding.covers(pod->space, pod->labels));
  };
  const auto in_force = known.policies.in_force(truth().policy_edits(), now());
  return std::any_of(in_force.begin(), in_force.end(), [&accepts](const auto& reach) {
    return std::any_of(reach->bindings.begin(), reach->bindings.end(), accepts);
  });
}

// For so long that every reading said it.
// For so long that the engine must know. On Unknown half of it is enough, and it need not be there.
bool DeleteChecker::is_dead(const NodeTruth& node) const {
  const LeaseTruth* lease = truth().lease(node.name);
  if (lease == nullptr) {
    return true;
  }
  const Duration lived = !node.silent.holds ? lease->duration + kLeaseKnown
                         : lease->exists    ? lease->duration
                                            : Duration::zero();
  return !lease->changed_between(now() - lived - lifetime_, Moment::max());
}

bool DeleteChecker::stands_still(const NodeTruth& node) const {
  const LeaseTruth* lease = truth().lease(node.name);
  return lease != nullptr && !lease->changed_between(now() - lease->duration, now() - lifetime_);
}

bool DeleteChecker::was_bound_before_successor(const PodTruth& pod, const AuditLine& intent) const {
  return std::none_of(truth().nodes().begin(), truth().nodes().end(), [&](const auto& entry) {
    return entry.first != intent.node_uid && entry.second.name == intent.node &&
           entry.second.exists.holds && entry.second.exists.changed <= pod.bound;
  });
}

// One that has just come back is judged by other rules.
bool DeleteChecker::was_down_for(const NodeTruth& node, Duration time) const {
  return time <= Duration::zero() || !node.down.holds || node.down.held_for(now(), time);
}

void DeleteChecker::check_reach(const std::string& what, const PodTruth& pod,
                                const AuditLine& intent, std::optional<Signal> signal,
                                const Known& known) {
  const NodeTruth* node = truth().node(intent.node_uid);
  if (pod.node != intent.node) {
    accuse(rules::kIncidentNode, what + "it is bound to " + pod.node + ", not " + intent.node);
  }
  if (pod.mirror || pod.controller == "DaemonSet" || pod.controller == "Node") {
    accuse(rules::kProtectedPod, what + "it is a mirror or DaemonSet pod");
  }
  if (signal == Signal::Succeeded && !was_bound_before_successor(pod, intent)) {
    accuse(rules::kIncidentNode, what + "it was bound to the successor");
  }
  bool covered = false;
  bool permits_kind = false;
  bool fits_signal = false;
  bool fits_deleted = signal != Signal::Deleted;
  const bool succeeded =
      signal == Signal::Succeeded || (!signal && was_read(intent, known, Signal::Succeeded));
  const bool was_silent = succeeded || node == nullptr
                              ? succeeded
                              : (node->silent.held_within(now(), lifetime_) || stands_still(*node));
  // Finished only since it was listed: the list could not know.
  const auto listed = known.listed.find(intent.pod_uid);
  const bool finished = pod.finished.holds && !pod.marked && listed != known.listed.end() &&
                        pod.finished.changed < listed->second;
  for (const auto& reach : known.policies.in_force(truth().policy_edits(), now())) {
    for (const BindingReach& binding : reach->bindings) {
      if (!binding.enforces || !binding.covers(pod.space, pod.labels)) {
        continue;
      }
      covered = true;
      const bool permits =
          (binding.bare_pods || !pod.controller.empty()) && (binding.finished_pods || !finished);
      permits_kind = permits_kind || permits;
      if (signal == Signal::Deleted && !binding.deleted) {
        continue;
      }
      fits_deleted = true;
      const bool held =
          node == nullptr || signal == Signal::Deleted || was_down_for(*node, binding.hold_down);
      fits_signal = fits_signal || (permits && ((binding.live_kubelet && held) || was_silent));
    }
  }
  if (HeardPolicies::must_rest(truth().policy_edits(), now())) {
    accuse(rules::kCoveredPod, what + "the mode was lowered so long ago that it must be known");
  } else if (!covered) {
    accuse(rules::kCoveredPod, what + "no enforcing binding covers it");
  } else if (!permits_kind) {
    accuse(rules::kProtectedPod, what + "it is finished or bare, and no binding allows that");
  } else if (!fits_deleted) {
    accuse(rules::kDeletedNode,
           what + "no binding that covers it acts on deleted nodes, as " + intent.node + " is");
  } else if (!fits_signal) {
    accuse(rules::kSilentKubelet, what + "the kubelet of " + intent.node + " is not silent");
  }
}

void DeleteChecker::on_answered(const WireRequest& request, const ServerAnswer& answer) {
  if (request.method != port::Method::Get || answer.watch != nullptr) {
    return;
  }
  const CalledPath target = read_path(request.target);
  Known& known = known_[life_of(request)];
  if (target.resource == "nodes" && !target.name.empty()) {
    note_node(target.name, request, answer);
    return;
  }
  if (answer.status != 200) {
    return;
  }
  if (target.resource == "nodes") {
    note_absence(request, answer);
  } else if (target.resource == "configmaps" && target.name == "moonfence-lastgood") {
    known.policies.read_kept(answer.body);
  } else if (target.resource == "pods" && target.name.empty()) {
    const Json list = Json::parse(answer.body, nullptr, false);
    const Json* items = find_field(list, {"items"});
    for (const Json& pod : items == nullptr ? Json::array() : *items) {
      known.listed[text_field(pod, {"metadata", "uid"})] = now();
    }
  }
}

void DeleteChecker::note_node(const std::string& name, const WireRequest& request,
                              const ServerAnswer& answer) {
  if (answer.status != 200 && answer.status != 404) {
    return;
  }
  const Json body = Json::parse(answer.body, nullptr, false);
  std::vector<Reading>& readings = known_[life_of(request)].readings[name];
  std::erase_if(readings,
                [this](const Reading& reading) { return now() - reading.left > kOldest; });
  Reading reading = {.left = request.left};
  if (answer.status == 200) {
    reading.uid = text_field(body, {"metadata", "uid"});
    reading.down = is_down(body);
  } else {
    reading.absent = text_field(body, {"details", "name"}) == name;
  }
  readings.push_back(reading);
}

// A list of the nodes of one name that is empty bears out a 404, and is the younger of the two. One
// that may be of a cache proves nothing.
void DeleteChecker::note_absence(const WireRequest& request, const ServerAnswer& answer) {
  constexpr std::string_view kByName = "fieldSelector=metadata.name%3D";
  const std::size_t found = request.target.find(kByName);
  const Json list = Json::parse(answer.body, nullptr, false);
  const Json* items = find_field(list, {"items"});
  const bool of_store = request.target.find("resourceVersion=") == std::string::npos;
  if (found == std::string::npos || !of_store || items == nullptr || !items->empty()) {
    return;
  }
  const std::size_t begin = found + kByName.size();
  const std::string name = request.target.substr(begin, request.target.find('&', begin) - begin);
  Reading reading = {.left = request.left};
  reading.absent = true;
  known_[life_of(request)].readings[name].push_back(reading);
}

void DeleteChecker::on_heard(const WireRequest& request, int status, std::string_view text) {
  if (status != 200 || request.method != port::Method::Get ||
      request.target.find("/namespaces/moonfence/configmaps") == std::string::npos ||
      request.target.find("moonfence-policies") == std::string::npos) {
    return;
  }
  known_[life_of(request)].policies.heard(text, truth().restores(), now());
}

void DeleteChecker::on_change(const Change& change) {
  if (change.type != ChangeType::Deleted || change.key.resource != "pods" ||
      !is_engine(change.actor)) {
    return;
  }
  const std::string& uid = text_field(*change.after, {"metadata", "uid"});
  const bool intended = std::any_of(known_.begin(), known_.end(), [&](const auto& entry) {
    return entry.first.replica == change.actor && entry.second.intents.contains(uid);
  });
  if (!intended) {
    accuse(rules::kUidPrecondition, change.actor + " removed pod " + change.key.space + "/" +
                                        change.key.name + " of UID " + uid +
                                        ", which it never meant");
  }
}

}  // namespace moonfence::sim
