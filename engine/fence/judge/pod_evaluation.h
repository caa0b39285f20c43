#pragma once

// PodEvaluation asks the policies of one set about the pods of one node, records what each of them
// says (fence/judge/verdict_log), and comes to one decision a pod. It reads nothing and deletes
// nothing.
//
// Who is asked about a pod: every binding whose scope covers it, whose policy selects it and that
// may act on the node by now (fence/rules/triggers, and the policy's own word on the node) and on
// such a pod (fence/rules/selection). A guard is asked beside them before its own time as well: its
// trigger says when it may act, not when it may speak against somebody else of its mode. Only that
// it forbids or holds, or could not say, counts then. A policy that holds the node is asked about a
// pod that somebody else would act on: it holds what it does not skip.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/judge/memory.h"
#include "fence/judge/policy_breaker.h"
#include "fence/judge/resolution.h"
#include "fence/judge/verdict_log.h"
#include "fence/leases/kubelet_lease.h"
#include "fence/leases/renewals.h"
#include "fence/read/fact_reader.h"
#include "fence/read/pod_watch.h"
#include "fence/read/surroundings.h"
#include "fence/rules/action.h"
#include "fence/rules/guard.h"
#include "fence/rules/pass_result.h"
#include "fence/rules/triggers.h"
#include "fence/verify/replacements.h"
#include "kube/objects/objects.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

// What a policy's verdict comes to for one pod.
struct PodPlan {
  DeletePod deletion;
  bool deletes_pod = true;                        // false: only its attachments, before it
  std::vector<policy::VolumeFacts> volumes = {};  // whose attachments are to go
  bool releases = false;                          // what is detached is to be released
};

class PodEvaluation {
 public:
  // All references must outlive it.
  PodEvaluation(Surroundings& surroundings, const PassContext& context,
                std::shared_ptr<const Authority> authority, Memory& memory);

  // Before the first pod: the node as the authority's reading shows it.
  void begin(kube::Node node);

  // What has to be known about the pod before it can be judged: all that the policies need which
  // select it.
  [[nodiscard]] Wants wants_of(const kube::Pod& pod) const;

  // What is to be done, if anything. What has to come later is added to `result`. A pod that no
  // binding selects leaves no trace. `known` is what was gathered about the pod; a policy that
  // needs more waits.
  [[nodiscard]] std::optional<PodPlan> judge(kube::Pod pod, const Gathered& known,
                                             const policy::ClusterFacts& cluster,
                                             PassResult& result);

  // That of the first policy that enforces and wants the node out of service while it is not.
  [[nodiscard]] const std::optional<TaintWish>& taint_wish() const { return taint_wish_; }
  // What would be done in mode enforce, of pods in these namespaces, is told when somebody has read
  // whether they are held.
  [[nodiscard]] std::set<Namespace> observed_spaces() const;
  void tell_observed(PassResult& result);
  // Who spoke, or may have spoken, against touching some pod of the node.
  struct Objection {
    audit::Reason reason;
    std::string text;
  };
  [[nodiscard]] const std::optional<Objection>& objection() const { return objection_; }
  // The same against ending every pod of the node with its machine; that proof is missing is none.
  [[nodiscard]] const std::optional<Objection>& power_objection() const { return power_objection_; }
  // What policies that enforce demand to be known of the node, about any of its pods.
  [[nodiscard]] const policy::ProofDemands& proof() const { return proof_; }
  // Of the pods that an enforcing policy would have deleted by now, if only its machine were known
  // to be off, the first.
  [[nodiscard]] const std::optional<DeletePod>& order_wish() const { return order_wish_; }

 private:
  [[nodiscard]] bool guard_reads_spec() const;
  struct Case;
  [[nodiscard]] std::vector<std::size_t> selecting(const kube::Pod& pod) const;
  void ask_about_node(std::size_t index, const Gathered& known,
                      const policy::ClusterFacts& cluster);
  [[nodiscard]] bool is_to_judge_node(std::size_t index) const;
  // What node_fetch asked for could not be had: the policy holds the node.
  void hold_unread_node(std::size_t index, const std::string& missing);
  [[nodiscard]] bool hold_unproven_node(std::size_t index, const policy::NodeVerdict& verdict);
  void wish_taint(std::size_t index, const policy::NodeVerdict& verdict);
  // Asked again, it wants it no more, or could not say.
  void drop_wish(std::size_t index);
  // Where a taint may evict the pod, whatever would have been done to it otherwise.
  void hear_objections(const Case& asked, PassResult& result);
  void hear_guards(const std::vector<std::size_t>& selected_by, Case& asked, PassResult& result);
  void hear_node_holds(const std::vector<std::size_t>& selected_by, Case& asked);
  void object_by_node_holds(const std::vector<std::size_t>& selected_by, const Case& asked);
  [[nodiscard]] bool others_may_taint(std::size_t index) const;
  void object_unasked(const kube::Pod& pod);
  void hear_power_objections(const std::vector<std::size_t>& selected_by, const Case& asked);
  // Of a policy that was not asked about the pod, or not yet: what it would say to its end.
  [[nodiscard]] std::pair<std::optional<audit::Reason>, std::string> power_objection_of(
      std::size_t index, const Case& asked) const;
  [[nodiscard]] bool holds_node(std::size_t index) const;
  [[nodiscard]] bool lets_go_of(const kube::Pod& pod, PassResult& result);
  void ask(std::size_t index, Case& asked);
  void ask_later(std::size_t index, Case& asked);
  [[nodiscard]] Opinion run(std::size_t index, Case& asked);
  // What it wants to do lacks proof: it holds the pod.
  void hold_unproven(Opinion& opinion, Case& asked);
  [[nodiscard]] bool may_have_switched_off(const Opinion& opinion, const Case& asked);
  // What a fencer would come to.
  [[nodiscard]] policy::PowerState aim() const;
  void wish_order(const Case& asked);
  [[nodiscard]] policy::ProofDemands node_demands_on(const kube::Pod& pod) const;
  void note_proof(policy::EvidenceSet demanded);
  [[nodiscard]] KnownDrivers drivers_of(const Case& asked) const;
  // Sightings::storage of the pod, while somebody has read that the node is isolated.
  [[nodiscard]] std::set<std::string> storage_of(const Case& asked) const;
  [[nodiscard]] bool is_or_can_be_isolated() const;
  [[nodiscard]] std::optional<PodPlan> enforce(Case& asked, PassResult& result);
  // A release begins with a pod whose volumes somebody will detach, and can: why it does not begin
  // yet. Before the pod is gone that costs nothing.
  struct Obstacle {
    audit::Reason reason;
    std::string text;
  };
  [[nodiscard]] std::optional<Obstacle> obstacle_to_release(const Case& asked,
                                                            const policy::Verdict& verdict);
  // Why nobody knows that the driver's attacher is alive; "" when it is, or is not watched.
  [[nodiscard]] std::string silence_of_attacher(const std::string& driver, const Gathered& known);
  // By what is known now nobody on the node writes to its volumes: they are released unasked.
  [[nodiscard]] bool is_stopped(const policy::Verdict& verdict) const;
  [[nodiscard]] PodPlan pod_plan_of(Case& asked, const Opinion& by);
  // What a policy had to say beside its verdict.
  void log_lines(const policy::Binding& by, const kube::Pod& pod,
                 const std::vector<std::string>& lines);
  void observe(const Case& asked, PassResult& result);
  // A pod that would be deleted in mode enforce: told when its namespace was read.
  struct Observed {
    kube::Pod pod;
    Opinion by;
    KnownDrivers drivers;
    std::set<std::string> storage;
  };
  void tell_observed(const Observed& observed, PassResult& result);
  [[nodiscard]] std::pair<audit::Reason, std::string> wait_of(const Opinion& opinion) const;
  void look_again(const Decision& decision, const Case& asked, PassResult& result) const;
  void note_failures(const Decision& decision, const Case& asked, PassResult& result) const;

  [[nodiscard]] const policy::Binding& binding(std::size_t index) const {
    return context_.set->bindings[index];
  }
  [[nodiscard]] policy::NodeFacts node_facts(std::size_t index,
                                             std::set<std::string> storage = {}) const;
  void tell_usage(const policy::Binding& binding, const policy::Usage& usage) const;

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  VerdictLog verdict_log_;
  kube::Node node_;
  std::vector<Standing> standings_;  // by binding
  std::vector<bool> node_judged_;    // by binding: it was asked about the node
  // By binding: what it said of the node, or nothing because it failed.
  std::map<std::size_t, std::optional<policy::Verdict>> node_holds_;
  std::set<std::size_t> unproven_nodes_;  // of these: it lacks proof
  // What enforcing policies demand that judged the node, by binding.
  std::map<std::size_t, policy::EvidenceSet> node_proof_;
  std::vector<Observed> observed_;
  const bool may_taint_;
  const bool fencers_may_act_;
  std::optional<TaintWish> taint_wish_;
  std::optional<Objection> objection_;
  std::optional<Objection> power_objection_;
  policy::ProofDemands proof_;
  std::optional<DeletePod> order_wish_;
};

}  // namespace moonfence::fence
