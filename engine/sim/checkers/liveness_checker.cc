#include "sim/checkers/liveness_checker.h"

#include <algorithm>
#include <array>

#include "sim/ground/refusals.h"
#include "sim/store/fields.h"
#include "sim/truth/settling.h"

namespace moonfence::sim {
namespace {

// Of a Node that was made anew: for how long the kubelet of the one before it was silent, at
// least, for the engine to have read it so. It looks as soon as it is called so, in calm weather.
constexpr Duration kReadAsSilent = std::chrono::seconds(20);
// Who heard a machine's kernel has to make sure that it is silent now.
constexpr Duration kHeardLately = std::chrono::seconds(60);

// What an honest storage takes.
constexpr Duration kSoon = std::chrono::seconds(5);

// Nothing kept the engine from reading it so.
bool is_undisturbed(const Plan& plan) {
  constexpr std::array<Verb, 17> kDisturbing = {
      Verb::EditPolicies,    Verb::DeletePolicies, Verb::RestartServer, Verb::Outage,
      Verb::RestoreStore,    Verb::HushWatches,    Verb::RefuseWrites,  Verb::SlowServers,
      Verb::StepServerClock, Verb::CrashEngine,    Verb::StopEngine,    Verb::PauseEngine,
      Verb::PartitionEngine, Verb::StepNodeClock,  Verb::HoldNode,      Verb::AnnotateNode,
      Verb::HideObjects};
  return is_calm(plan.faults) &&
         std::none_of(plan.steps.begin(), plan.steps.end(), [&kDisturbing](const Step& step) {
           return std::find(kDisturbing.begin(), kDisturbing.end(), step.verb) != kDisturbing.end();
         });
}

}  // namespace

void LivenessChecker::at_end(Duration calm_for) {
  const auto settled = settling_time(plan());
  if (calm_for < settled || truth().policy_edits().empty() ||
      brake_.engaged_within(now(), settled)) {
    return;
  }
  const PolicyEdit& newest = truth().policy_edits().back();
  if (newest.reach == nullptr || newest.lowered || now() - newest.at < settled) {
    return;
  }
  for (const auto& [uid, node] : truth().nodes()) {
    if (node.exists.held_for(now(), settled) && !is_own_node_of_all(node.name) &&
        !is_node_held(node.name)) {
      look_at(node, *newest.reach, settled);
    }
  }
}

void LivenessChecker::look_at(const NodeTruth& node, const Reach& reach, Duration settled) const {
  const bool is_down = node.down.held_for(now(), settled) && node.tainted.held_for(now(), settled);
  const bool is_silent = node.silent.held_for(now(), settled);
  // While its kubelet speaks nobody cares about the kernel.
  const bool speaks = !node.silent.holds && now() - node.silent.changed >= settled;
  const bool is_heard = has_answered_lately(node.name);
  const bool awaits_proof = is_proof_awaited(node.name);
  if (!node.down.holds && now() - node.down.changed >= settled && is_kept_free(node.name)) {
    accuse(rules::kSilentTaint, "node " + node.name + " is up, and new pods are kept off it");
  }
  const bool was_read_as_silent =
      node.silent_before >= kReadAsSilent && is_undisturbed(plan()) && !brake_.ever_engaged();
  for (const auto& [uid, pod] : truth().pods()) {
    if (pod.node != node.name || !can_be_demanded(pod, settled)) {
      continue;
    }
    const bool awaits = awaits_proof && !must_be_isolated(node, pod, settled);
    const bool left_behind = was_read_as_silent && pod.bound < node.made && !runs(node.name, uid) &&
                             !was_node_held(node.name);
    if ((is_down && !awaits && (speaks || !is_heard) &&
         is_wanted_gone(pod, reach, is_silent, settled)) ||
        (left_behind && !awaits && !is_heard && is_wanted_gone(pod, reach, true, settled))) {
      accuse(rules::kNodeDealtWith,
             "node " + node.name +
                 (is_down ? " is down for " + format_duration(now() - node.down.changed)
                          : " was made anew " + format_duration(now() - node.made) + " ago") +
                 " and holds pod " + pod.space + "/" + pod.name);
    }
  }
}

bool LivenessChecker::must_be_isolated(const NodeTruth& node, const PodTruth& pod,
                                       Duration settled) const {
  const BmcPlan* bmc = bmc_of(plan(), node.name);
  const bool is_obeyed = std::all_of(plan().fence_classes.begin(), plan().fence_classes.end(),
                                     [](const FenceClassPlan& each) {
                                       return each.kind == FenceKind::Honest && each.takes <= kSoon;
                                     });
  // Its addresses are told anew after that, by a machine that is well.
  const bool is_anew = std::any_of(plan().steps.begin(), plan().steps.end(), [](const Step& step) {
    return step.verb == Verb::RecreateNode || step.verb == Verb::DeleteNode;
  });
  if (!isolates(plan()) || !is_obeyed || is_anew || !is_undisturbed(plan()) || bmc == nullptr ||
      bmc->kind != BmcKind::Dead || !node.silent.held_for(now(), settled)) {
    return false;
  }
  const auto find = [this](const Key& key) { return truth().store().find(key); };
  const Object object = find({.resource = "pods", .space = pod.space, .name = pod.name});
  return object != nullptr && !clusters_of(truth().machines(), *object, find).empty();
}

bool LivenessChecker::is_kept_free(const std::string& name) const {
  const auto& machines = truth().machines().by_name;
  const auto found = machines.find(name);
  const Object node = truth().store().find({.resource = "nodes", .space = {}, .name = name});
  return found != machines.end() && found->second.answers() && node != nullptr &&
         find_field(*node, {"metadata", "annotations", "moonfence.io/silent"}) != nullptr;
}

bool LivenessChecker::has_answered_lately(const std::string& machine) const {
  const auto& machines = truth().machines().by_name;
  const auto found = machines.find(machine);
  return detects(plan()) && found != machines.end() &&
         (found->second.answers() || now() - found->second.answers_since < kHeardLately);
}

bool LivenessChecker::runs(const std::string& machine, const std::string& pod) const {
  const auto& machines = truth().machines().by_name;
  const auto found = machines.find(machine);
  return found != machines.end() && found->second.containers.contains(pod);
}

bool LivenessChecker::can_be_demanded(const PodTruth& pod, Duration settled) const {
  return !pod.gone && !pod.finalized && !pod.mirror && pod.controller != "DaemonSet" &&
         pod.controller != "Node" && now() - pod.bound >= settled && !is_pod_held(pod);
}

bool LivenessChecker::is_wanted_gone(const PodTruth& pod, const Reach& reach, bool was_silent,
                                     Duration settled) const {
  // Nothing runs in it any more, and its name is held until somebody lets it go.
  const bool is_asked_to_go = pod.marked && now() - *pod.marked >= settled;
  bool demanded = false;
  for (const BindingReach& binding : reach.bindings) {
    if (!binding.enforces || !binding.covers(pod.space, pod.labels) ||
        (pod.controller.empty() && !binding.bare_pods) ||
        (pod.finished.holds && !is_asked_to_go && !binding.finished_pods) ||
        (!binding.spared_prefix.empty() && pod.name.starts_with(binding.spared_prefix))) {
      continue;
    }
    if (!binding.deletes) {
      return false;  // it may hold the pod
    }
    demanded = demanded || binding.live_kubelet || was_silent;
  }
  return demanded;
}

}  // namespace moonfence::sim
