#include "fence/judge/pod_evaluation.h"

#include <algorithm>
#include <set>

#include "fence/judge/seen_node.h"
#include "fence/rules/eviction.h"
#include "fence/rules/selection.h"
#include "fence/verify/replacement.h"
#include "policy/input/pod_storage.h"
#include "policy/input/translated.h"

namespace moonfence::fence {

using audit::Reason;
using policy::Binding;
using policy::Mode;
using policy::NodeVerdict;
using policy::Verdict;

namespace {

// When a policy that failed over the node is asked again.
constexpr Duration kNodeRetry = std::chrono::seconds(30);
// When what a policy fetches for the node, and nobody could read, is asked for again.
constexpr Duration kUnreadRetry = std::chrono::seconds(10);
// When what keeps a release from beginning is looked at again.
constexpr Duration kObstacleRetry = std::chrono::seconds(5);

bool is_guard(const Binding& binding) {
  return binding.policy == nullptr || binding.policy->is_guard();
}

// The breaker's word on a policy, as a sentence.
std::string sentence(const Binding& binding, const std::string& why) {
  return "policy " + binding.name + " " + why;
}

bool acts(const Opinion& opinion) {
  if (!opinion.verdict) {
    return false;
  }
  switch (opinion.verdict->kind) {
    case Verdict::Kind::DeletePod:
    case Verdict::Kind::DeletePodAndAttachments:
    case Verdict::Kind::DeleteAttachments:
      return true;
    case Verdict::Kind::Skip:
    case Verdict::Kind::Forbid:
    case Verdict::Kind::Hold:
    case Verdict::Kind::Wait:
      return false;
  }
  return false;
}

bool is_against_all(const Verdict& verdict) {
  return verdict.kind == Verdict::Kind::Forbid || verdict.kind == Verdict::Kind::Hold;
}

Opinion opinion_of(const Binding& binding, std::size_t index) {
  return {.binding = index, .mode = binding.mode};
}

}  // namespace

// One pod while it is being asked about.
struct PodEvaluation::Case {
  kube::Pod& pod;
  const Gathered& known;
  const policy::ClusterFacts& cluster;
  std::set<Mode> may_act = {};  // the modes in which some binding may act on it by now
  std::vector<Opinion> opinions;
  bool unfit = false;               // a binding would be asked if the node's kubelet were silent
  bool unread = false;              // a binding would be asked if what it needs could be read
  policy::ProofDemands proof = {};  // of those that enforce
  // Of those that enforce and lack theirs, and of the first of them that would act now: which
  // binding, and its words.
  policy::ProofDemands unmet = {};
  std::optional<std::pair<std::size_t, std::string>> would_act = std::nullopt;
};

PodEvaluation::PodEvaluation(Surroundings& surroundings, const PassContext& context,
                             std::shared_ptr<const Authority> authority, Memory& memory)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      verdict_log_(around_.output.trail, context_, *authority_, memory_),
      may_taint_(may_taint(*context.set)),
      fencers_may_act_(around_.in_force.powers != nullptr && around_.in_force.powers->may_act()) {}

void PodEvaluation::begin(kube::Node node) {
  node_ = std::move(node);
  node_judged_.assign(context_.set->bindings.size(), false);
  node_holds_.clear();
  unproven_nodes_.clear();
  node_proof_.clear();
  standings_.clear();
  const auto changed = node_.ready ? node_.ready->last_transition_time : std::nullopt;
  if (changed != memory_.word.changed) {
    memory_.word = {.changed = changed, .heard = authority_->reading.sent};
  }
  for (const Binding& binding : context_.set->bindings) {
    // A health source knows of no kubelet.
    const Duration held = authority_->source.empty() ? binding.hold_down : Duration::zero();
    standings_.push_back(
        binding.policy == nullptr ? Standing{}
        : signal_of(binding) != authority_->source
            ? Standing{.kind = Standing::Kind::OtherWord}
            : standing_of(binding.policy->trigger(), held, context_.downtime,
                          {.silent = authority_->reading.kubelet_lease == KubeletLease::Dead,
                           .answers = is_kept_by_kernel(authority_->reading),
                           .deleted = is_of_deleted_node(authority_->reading),
                           .unbroken_since = memory_.word.heard},
                          around_.access.loop.now()));
  }
}

// On a lost node only pods without claims may go (fence/rules/selection).
bool PodEvaluation::guard_reads_spec() const {
  return authority_->source.starts_with(kLostSignal);
}

Wants PodEvaluation::wants_of(const kube::Pod& pod) const {
  Wants wants;
  policy::Needs& all = wants.needs;
  all.volumes = !around_.in_force.protections.proof.drivers.empty() || is_or_can_be_isolated();
  for (const std::size_t index : selecting(pod)) {
    if (binding(index).policy != nullptr) {
      const policy::Needs& needs = binding(index).policy->needs();
      all.volumes = all.volumes || needs.volumes;
      all.placement = all.placement || needs.placement;
      all.root_owner = all.root_owner || needs.root_owner;
      all.siblings = all.siblings || needs.siblings;
      if (binding(index).policy->fetches()) {
        wants.fetchers.push_back(binding(index).policy);
      }
      if (binding(index).policy->node_fetches() && is_to_judge_node(index)) {
        wants.node_fetchers.push_back(
            {.policy = binding(index).policy, .node = node_, .facts = node_facts(index)});
      }
    }
  }
  return wants;
}

// Of a pod that was deleted before. What finalizers keep is told as long as it is there; what is
// there without them was brought back, with a store that was restored, or never went.
bool PodEvaluation::lets_go_of(const kube::Pod& pod, PassResult& result) {
  const std::string keepers = namespace_pod(pod).finalizers;
  if (!pod.deletion_timestamp || keepers.empty()) {
    memory_.handled.erase(pod.uid);
    // Until a live look shows that it is gone.
    result.look_again = std::min(result.look_again.value_or(kMarkedPause), kMarkedPause);
    return true;
  }
  verdict_log_.verdict(pod, nullptr, Reason::HandledBefore, {});
  result.hold("pod " + pod.ref.text() + " is deleted, and kept by its finalizers: " + keepers,
              kMarkedPause, Reason::HandledBefore);
  return false;
}

std::optional<PodPlan> PodEvaluation::judge(kube::Pod pod, const Gathered& known,
                                            const policy::ClusterFacts& cluster,
                                            PassResult& result) {
  if (!concerns(memory_, authority_->reading, pod)) {
    return std::nullopt;
  }
  const std::vector<std::size_t> selected_by = selecting(pod);
  object_unasked(pod);
  if (selected_by.empty()) {
    return std::nullopt;
  }
  if (memory_.handled.contains(pod.uid) && !lets_go_of(pod, result)) {
    return std::nullopt;
  }
  std::optional<Reason> untouchable;
  bool touchable = false;
  Case asked = {.pod = pod, .known = known, .cluster = cluster, .opinions = {}};
  for (const std::size_t index : selected_by) {
    if (binding(index).policy == nullptr) {
      continue;
    }
    const auto reason = left_alone(pod, binding(index).allow);
    untouchable = untouchable ? untouchable : reason;
    touchable = touchable || !reason;
    if (!reason) {
      ask_about_node(index, known, cluster);
    }
    if (taint_wish_ && !taint_wish_->pod) {
      taint_wish_->pod = pod;
      taint_wish_->pod->raw.reset();
    }
    if (!reason && standings_[index].kind == Standing::Kind::MayAct) {
      asked.may_act.insert(binding(index).mode);
    }
  }
  if (!touchable) {
    verdict_log_.verdict(pod, nullptr, *untouchable, {});
    hear_power_objections(selected_by, asked);
    hear_guards(selected_by, asked, result);
    result.unreadable = result.unreadable || asked.unread;
    return std::nullopt;
  }
  for (const std::size_t index : selected_by) {
    ask(index, asked);
  }
  hear_node_holds(selected_by, asked);
  hear_power_objections(selected_by, asked);
  wish_order(asked);
  hear_objections(asked, result);
  object_by_node_holds(selected_by, asked);
  result.unreadable = result.unreadable || asked.unread;
  verdict_log_.shadow(resolve(asked.opinions, Mode::Observe),
                      resolve(asked.opinions, Mode::Enforce), asked.pod);
  observe(asked, result);
  return enforce(asked, result);
}

std::vector<std::size_t> PodEvaluation::selecting(const kube::Pod& pod) const {
  std::vector<std::size_t> found;
  bool by_a_policy = false;
  for (std::size_t index = 0; index < context_.set->bindings.size(); ++index) {
    const Binding& candidate = binding(index);
    const Standing::Kind kind = standings_[index].kind;
    const bool unconcerned = kind == Standing::Kind::NotSwept ||
                             kind == Standing::Kind::NotDeleted ||
                             kind == Standing::Kind::OtherWord;
    const bool asleep = unconcerned && !is_guard(candidate);
    if (asleep || !candidate.scope.covers(pod.ref.space) ||
        (candidate.policy != nullptr && !candidate.policy->selects(pod.labels))) {
      continue;
    }
    by_a_policy = by_a_policy || candidate.policy != nullptr;
    found.push_back(index);
  }
  if (!by_a_policy) {
    found.clear();
  }
  return found;
}

// Once for every reading, when the first of its pods comes up.
void PodEvaluation::ask_about_node(std::size_t index, const Gathered& known,
                                   const policy::ClusterFacts& cluster) {
  if (!is_to_judge_node(index)) {
    return;
  }
  const Binding& asking = binding(index);
  Standing& standing = standings_[index];
  node_judged_[index] = true;
  policy::NodeFacts facts = node_facts(index);
  if (asking.policy->node_fetches()) {
    const auto found = known.node_fetched.find(asking.policy.get());
    if (found == known.node_fetched.end() || !found->second->missing.empty()) {
      hold_unread_node(index, found == known.node_fetched.end() ? "nothing was fetched"
                                                                : found->second->missing);
      return;
    }
    facts.fetched = {found->second, &found->second->answers};
  }
  const auto run = asking.policy->judge_node(node_, cluster, facts);
  tell_usage(asking, run.usage);
  const auto tripped =
      memory_.side(asking.mode)
          .breaker.note(key_of(asking), run.result ? nullptr : &run.result.error(), run.usage);
  if (tripped) {
    verdict_log_.mention_once(asking, Reason::PolicyFailing, sentence(asking, *tripped));
  }
  if (!run.result || run.result->kind != NodeVerdict::Kind::TaintOutOfService) {
    drop_wish(index);
  }
  if (!run.result) {
    standing = {.kind = Standing::Kind::NodeHeld, .due_in = kNodeRetry};
    node_holds_[index] = std::nullopt;
    verdict_log_.mention_once(asking, Reason::PolicyFailed, run.result.error().message());
    return;
  }
  switch (run.result->kind) {
    case NodeVerdict::Kind::Proceed:
      break;
    case NodeVerdict::Kind::Hold:
      standing = {.kind = Standing::Kind::NodeHeld, .due_in = run.result->wait};
      node_holds_[index] = Verdict{
          .kind = Verdict::Kind::Hold, .reason = run.result->reason, .wait = run.result->wait};
      verdict_log_.mention_once(asking, Reason::PolicyHoldsNode, run.result->reason);
      break;
    case NodeVerdict::Kind::TaintOutOfService:
      // Its pods wait for it. When it is there they are the policy's like any others.
      if (hold_unproven_node(index, *run.result)) {
        break;
      }
      if (has_no_object(authority_->reading)) {
        standing = {.kind = Standing::Kind::NodeHeld, .due_in = kNodeRetry};
        verdict_log_.mention_once(asking, Reason::NodeGone,
                                  "out of service: " + run.result->reason);
      } else if (!is_in_place(authority_->reading.out_of_service)) {
        standing = {.kind = Standing::Kind::NodeHeld};
        wish_taint(index, *run.result);
      }
      break;
  }
}

bool PodEvaluation::is_to_judge_node(std::size_t index) const {
  const Binding& asking = binding(index);
  return standings_[index].kind == Standing::Kind::MayAct && !node_judged_[index] &&
         asking.policy->judges_node() && memory_.side(asking.mode).breaker.may_run(key_of(asking));
}

void PodEvaluation::hold_unread_node(std::size_t index, const std::string& missing) {
  drop_wish(index);
  standings_[index] = {.kind = Standing::Kind::NodeHeld, .due_in = kUnreadRetry};
  node_holds_[index] =
      Verdict{.kind = Verdict::Kind::Hold, .reason = missing, .wait = kUnreadRetry};
  verdict_log_.mention_once(binding(index), Reason::NeedsUnread, missing);
}

// What its policy demands to be known of the node before is missing: it holds the node.
bool PodEvaluation::hold_unproven_node(std::size_t index, const NodeVerdict& verdict) {
  const Binding& by = binding(index);
  if (by.mode == Mode::Enforce && !verdict.proof.empty()) {
    note_proof(verdict.proof);
    node_proof_[index] = verdict.proof;
  }
  const Sightings sightings = sightings_of(*authority_);
  const auto unproven = unmet({verdict.proof}, evidence_there(sightings));
  if (!unproven) {
    return false;
  }
  const std::string missing = missing_text(authority_->node, "its policy", *unproven, sightings);
  drop_wish(index);
  standings_[index] = {.kind = Standing::Kind::NodeHeld, .due_in = kProofPause};
  node_holds_[index] = Verdict{.kind = Verdict::Kind::Hold, .reason = missing, .wait = kProofPause};
  unproven_nodes_.insert(index);
  verdict_log_.mention_once(by, Reason::ProofMissing, "out of service: " + missing);
  return true;
}

void PodEvaluation::wish_taint(std::size_t index, const NodeVerdict& verdict) {
  const Binding& by = binding(index);
  const std::string& why = verdict.reason;
  if (by.mode != Mode::Enforce) {
    verdict_log_.mention_once(by, Reason::ModeObserves, "out of service: " + why);
  } else if (!taint_wish_) {
    taint_wish_ = {.policy = by.name,
                   .policy_digest = by.digest,
                   .set_digest = context_.set->digest,
                   .why = why,
                   .proof = {verdict.proof}};
  }
}

void PodEvaluation::drop_wish(std::size_t index) {
  const auto is_its = [&by = binding(index)](const std::optional<TaintWish>& wish) {
    return wish && wish->policy == by.name && wish->policy_digest == by.digest;
  };
  if (is_its(taint_wish_)) {
    taint_wish_.reset();
  }
  if (is_its(memory_.retired_for) && !is_in_place(authority_->reading.out_of_service)) {
    memory_.retired_for.reset();
  }
}

// No policy may touch the pod, and the taint evicts it.
void PodEvaluation::hear_guards(const std::vector<std::size_t>& selected_by, Case& asked,
                                PassResult& result) {
  if (!may_taint_ || objection_ || !is_evicted(asked.pod)) {
    return;
  }
  for (const std::size_t index : selected_by) {
    const Binding& guard = binding(index);
    if (guard.policy != nullptr && guard.mode == Mode::Enforce && is_guard(guard)) {
      asked.opinions.push_back(run(index, asked));
    }
  }
  hear_objections(asked, result);
}

// What such a policy would skip is none of its business, and only it can tell.
void PodEvaluation::hear_node_holds(const std::vector<std::size_t>& selected_by, Case& asked) {
  for (const std::size_t index : selected_by) {
    const auto held = node_holds_.find(index);
    const bool matters =
        std::any_of(asked.opinions.begin(), asked.opinions.end(),
                    [mode = binding(index).mode](const Opinion& opinion) {
                      return opinion.mode == mode && !opinion.yields && acts(opinion);
                    });
    if (held == node_holds_.end() || !matters || left_alone(asked.pod, binding(index).allow)) {
      continue;
    }
    Opinion opinion = run(index, asked);
    if (opinion.verdict && !is_against_all(*opinion.verdict) &&
        opinion.verdict->kind != Verdict::Kind::Skip) {
      opinion.verdict = held->second;
      opinion.failed = !held->second;
      opinion.unproven = unproven_nodes_.contains(index);
    }
    asked.opinions.push_back(std::move(opinion));
  }
}

// Somebody else's taint would evict a pod of a node that its policy holds, unless it would skip it.
void PodEvaluation::object_by_node_holds(const std::vector<std::size_t>& selected_by,
                                         const Case& asked) {
  if (!may_taint_ || objection_ || node_holds_.empty() || !is_evicted(asked.pod)) {
    return;
  }
  for (const std::size_t index : selected_by) {
    const Binding& holder = binding(index);
    if (!node_holds_.contains(index) || holder.mode != Mode::Enforce ||
        left_alone(asked.pod, holder.allow) || !others_may_taint(index)) {
      continue;
    }
    const auto said = holder.policy->evaluate(asked.pod, node_, asked.cluster, node_facts(index),
                                              asked.known.facts_for(*holder.policy), nullptr);
    if (!said.verdict || said.verdict->kind != Verdict::Kind::Skip) {
      objection_ = {.reason = unproven_nodes_.contains(index) ? Reason::ProofMissing
                                                              : Reason::PolicyHoldsNode,
                    .text = "policy " + holder.name + " on pod " + asked.pod.ref.text()};
      return;
    }
  }
}

bool PodEvaluation::others_may_taint(std::size_t index) const {
  const auto& all = context_.set->bindings;
  return std::any_of(all.begin(), all.end(), [&all, index](const Binding& other) {
    return &other != &all[index] && other.policy != nullptr && other.mode == Mode::Enforce &&
           other.allow.out_of_service && other.policy->judges_node();
  });
}

void PodEvaluation::hear_objections(const Case& asked, PassResult& result) {
  if (!may_taint_ || objection_) {
    return;
  }
  for (const Opinion& opinion : asked.opinions) {
    const bool careful = !opinion.yields && !acts(opinion) &&
                         !(opinion.verdict && opinion.verdict->kind == Verdict::Kind::Skip);
    if (opinion.mode != Mode::Enforce || !careful) {
      continue;
    }
    objection_ = {
        .reason = opinion.unproven  ? Reason::ProofMissing
                  : opinion.verdict ? reason_of(opinion.verdict->kind)
                                    : Reason::GuardFailed,
        .text = "policy " + binding(opinion.binding).name + " on pod " + asked.pod.ref.text()};
    if (opinion.verdict) {
      const Duration again =
          opinion.verdict->kind == Verdict::Kind::Forbid ? kForbidsFor : opinion.verdict->wait;
      result.look_again = std::min(result.look_again.value_or(again), again);
    }
    return;
  }
}

// A guard that could not be loaded covers pods that no policy selects.
void PodEvaluation::object_unasked(const kube::Pod& pod) {
  const bool matters_to_taint = may_taint_ && !objection_;
  const bool matters_to_power = fencers_may_act_ && !power_objection_;
  if (!matters_to_taint && !matters_to_power) {
    return;
  }
  for (const Binding& by : context_.set->bindings) {
    if (by.policy == nullptr && by.mode == Mode::Enforce && by.scope.covers(pod.ref.space)) {
      const Objection broken = {.reason = Reason::GuardBroken,
                                .text = "policy " + by.name + " on pod " + pod.ref.text()};
      objection_ = matters_to_taint ? broken : objection_;
      power_objection_ = matters_to_power ? broken : power_objection_;
      return;
    }
  }
}

// With its machine the pod ends whatever it tolerates, and whoever it belongs to.
void PodEvaluation::hear_power_objections(const std::vector<std::size_t>& selected_by,
                                          const Case& asked) {
  if (!fencers_may_act_ || power_objection_) {
    return;
  }
  for (const std::size_t index : selected_by) {
    const Binding& by = binding(index);
    if (by.policy == nullptr || by.mode != Mode::Enforce) {
      continue;
    }
    const auto said = std::find_if(
        asked.opinions.begin(), asked.opinions.end(),
        [index](const Opinion& opinion) { return opinion.binding == index && !opinion.yields; });
    std::pair<std::optional<Reason>, std::string> against;
    if (said == asked.opinions.end() || holds_node(index)) {
      against = power_objection_of(index, asked);
    } else if (!said->verdict) {
      against.first = Reason::GuardFailed;
    } else if (!said->unproven && !acts(*said) && said->verdict->kind != Verdict::Kind::Skip) {
      against.first = reason_of(said->verdict->kind);
    }
    if (against.first) {
      power_objection_ = {.reason = *against.first,
                          .text = "policy " + by.name + " on pod " + asked.pod.ref.text() +
                                  (against.second.empty() ? "" : ": " + against.second)};
      return;
    }
  }
}

// By its word about the node, not because it lacks proof.
bool PodEvaluation::holds_node(std::size_t index) const {
  return node_holds_.contains(index) && !unproven_nodes_.contains(index);
}

std::pair<std::optional<Reason>, std::string> PodEvaluation::power_objection_of(
    std::size_t index, const Case& asked) const {
  const Binding& by = binding(index);
  if (!holds_node(index) && !is_guard(by)) {
    return {};
  }
  if (std::string missing = asked.known.missing_for(*by.policy); !missing.empty()) {
    return {Reason::NeedsUnread, std::move(missing)};
  }
  const auto said =
      by.policy->evaluate(asked.pod, node_, asked.cluster, node_facts(index, storage_of(asked)),
                          asked.known.facts_for(*by.policy), nullptr);
  if (!said.verdict) {
    return {Reason::GuardFailed, said.verdict.error().message()};
  }
  if (is_against_all(*said.verdict)) {
    return {reason_of(said.verdict->kind), said.verdict->reason};
  }
  return {holds_node(index) && said.verdict->kind != Verdict::Kind::Skip
              ? std::optional(Reason::PolicyHoldsNode)
              : std::nullopt,
          {}};
}

policy::NodeFacts PodEvaluation::node_facts(std::size_t index,
                                            std::set<std::string> storage) const {
  const Duration down_for = around_.access.loop.now() - context_.downtime.since;
  const Duration unbroken = around_.access.loop.now() - memory_.word.heard;
  return {.exists = !is_of_deleted_node(authority_->reading),
          .failures = failures_of(binding(index).policy->trigger(), down_for),
          .since = std::chrono::ceil<std::chrono::seconds>(around_.access.cluster_facts().now -
                                                           unbroken),
          .evidence = evidence_there(sightings_of(*authority_, std::move(storage))),
          .lease_age = lease_age_of(authority_->reading),
          .machine = machine_of(authority_->reading.kernel)};
}

void PodEvaluation::ask(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  if (asking.policy == nullptr) {
    asked.opinions.push_back(opinion_of(asking, index));
    asked.opinions.back().failed = true;
    if (asked.may_act.contains(asking.mode)) {
      verdict_log_.mention_once(asking, Reason::GuardBroken, asking.error);
    }
    return;
  }
  const bool may_act =
      standings_[index].kind == Standing::Kind::MayAct && !left_alone(asked.pod, asking.allow);
  if (may_act) {
    asked.opinions.push_back(run(index, asked));
    return;
  }
  const bool may_be_evicted = may_taint_ && asking.mode == Mode::Enforce;
  if (is_guard(asking) && (asked.may_act.contains(asking.mode) || may_be_evicted)) {
    Opinion opinion = run(index, asked);
    if (!opinion.verdict || is_against_all(*opinion.verdict)) {
      asked.opinions.push_back(std::move(opinion));
      return;
    }
  }
  ask_later(index, asked);
}

void PodEvaluation::ask_later(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  if (left_alone(asked.pod, asking.allow)) {
    return;
  }
  const Standing& standing = standings_[index];
  if (standing.kind == Standing::Kind::Unfit) {
    asked.unfit = true;
    verdict_log_.mention_once(asking, Reason::SignalUnfit, {});
  } else if (standing.kind == Standing::Kind::NodeHeld ||
             standing.kind == Standing::Kind::NotDueYet) {
    Opinion opinion = opinion_of(asking, index);
    opinion.yields = true;  // it has had its say
    if (around_.output.on_evaluation &&
        (node_holds_.contains(index) || standing.due_in > Duration::zero())) {
      around_.output.on_evaluation(asked.pod.ref, asking, {});
    }
    if (standing.due_in > Duration::zero()) {
      opinion.verdict =
          Verdict{.kind = Verdict::Kind::Wait, .reason = "not yet", .wait = standing.due_in};
    }
    asked.opinions.push_back(std::move(opinion));
  }
  if (standing.kind == Standing::Kind::NotDueYet) {
    verdict_log_.mention_once(asking, Reason::HoldingDown,
                              "due in " + format_duration(standing.due_in));
  }
}

Opinion PodEvaluation::run(std::size_t index, Case& asked) {
  const Binding& asking = binding(index);
  Opinion opinion = opinion_of(asking, index);
  const std::string key = key_of(asking);
  auto& [breaker, verdict_counts] = memory_.side(asking.mode);
  if (!breaker.may_run(key)) {
    opinion.failed = true;
    verdict_log_.verdict(asked.pod, &asking, Reason::PolicyFailing,
                         sentence(asking, breaker.reason(key)));
    return opinion;
  }
  if (!breaker.has_turn(key, asked.pod.uid)) {
    opinion.failed = true;
    verdict_log_.verdict(asked.pod, &asking, Reason::PolicyFailing,
                         sentence(asking,
                                  "used its CPU time up before others came up; it is asked "
                                  "about them first"));
    return opinion;
  }
  if (const std::string missing = asked.known.missing_for(*asking.policy); !missing.empty()) {
    opinion.failed = true;
    asked.unread = true;
    verdict_log_.verdict(asked.pod, &asking, Reason::NeedsUnread, missing);
    return opinion;
  }
  policy::ClusterFacts cluster = asked.cluster;
  cluster.tally = verdict_counts.without(key, asked.pod.uid);
  policy::Trace trace;
  breaker.asked(key, asked.pod.uid);
  const policy::Evaluation evaluation = asking.policy->evaluate(
      asked.pod, node_, cluster, node_facts(index, storage_of(asked)),
      asked.known.facts_for(*asking.policy), around_.output.on_evaluation ? &trace : nullptr);
  if (around_.output.on_evaluation) {
    around_.output.on_evaluation(asked.pod.ref, asking, trace);
  }
  tell_usage(asking, evaluation.usage);
  const auto tripped = breaker.note(key, evaluation);
  verdict_counts.note(key, asked.pod.uid,
                      evaluation.verdict ? evaluation.verdict->kind : Verdict::Kind::Wait);
  bool is_news = false;
  if (evaluation.verdict) {
    opinion.verdict = *evaluation.verdict;
    hold_unproven(opinion, asked);
    is_news = verdict_log_.verdict(
        asked.pod, &asking,
        opinion.unproven ? Reason::ProofMissing : reason_of(opinion.verdict->kind),
        opinion.verdict->reason);
  } else {
    is_news = verdict_log_.verdict(asked.pod, &asking, Reason::PolicyFailed,
                                   evaluation.verdict.error().message());
    opinion.ask_again = !tripped;
    opinion.failed = true;
  }
  if (tripped) {
    verdict_log_.mention_once(asking, Reason::PolicyFailing, sentence(asking, *tripped));
  }
  if (is_news) {
    log_lines(asking, asked.pod, evaluation.log);
  }
  return opinion;
}

// Nobody may act on the pod before what this policy, or the engine's configuration, demands is
// known: as if the policy held it.
void PodEvaluation::hold_unproven(Opinion& opinion, Case& asked) {
  if (!acts(opinion)) {
    return;
  }
  const policy::EvidenceSet own = opinion.verdict->proof;
  const policy::ProofDemands demands = {own};
  const KnownDrivers drivers = drivers_of(asked);
  std::string missing = missing_proof(
      *authority_, {.proof = &demands, .drivers = &drivers, .storage = storage_of(asked)},
      asked.pod);
  if (!missing.empty()) {
    if (opinion.mode == Mode::Enforce) {
      asked.unmet.push_back(own);
      if (!asked.would_act && may_have_switched_off(opinion, asked)) {
        asked.would_act.emplace(opinion.binding, opinion.verdict->reason);
      }
    }
    opinion.unproven = true;
    opinion.verdict =
        Verdict{.kind = Verdict::Kind::Hold, .reason = std::move(missing), .wait = kProofPause};
  } else if (opinion.mode == Mode::Enforce && !own.empty()) {
    asked.proof.push_back(own);
    note_proof(own);
  }
}

// It would be done now, and the guard would let it.
bool PodEvaluation::may_have_switched_off(const Opinion& opinion, const Case& asked) {
  const Binding& by = binding(opinion.binding);
  return fencers_may_act_ && !order_wish_ &&
         standings_[opinion.binding].kind == Standing::Kind::MayAct &&
         !left_alone(asked.pod, by.allow) &&
         !around_.in_force.protections.namespaces.contains(asked.pod.ref.space) &&
         !obstacle_to_release(asked, *opinion.verdict);
}

// Until it is known what can be done, that is switching off.
policy::PowerState PodEvaluation::aim() const {
  const auto reading = authority_->powers == nullptr
                           ? std::nullopt
                           : authority_->powers->reading_of(authority_->node, authority_->node_uid);
  return reading && reading->order ? reading->order->aim
                                   : policy::PowerState{.power = policy::Power::Off};
}

// It has to be enough for everybody who demands something of the pod: ending all that runs on the
// machine for a pod that stays all the same helps nobody.
void PodEvaluation::wish_order(const Case& asked) {
  if (!asked.would_act || order_wish_) {
    return;
  }
  const auto& [index, why] = *asked.would_act;
  policy::ProofDemands demands = asked.unmet;
  demands.insert(demands.end(), asked.proof.begin(), asked.proof.end());
  for (const policy::EvidenceSet& demanded : node_demands_on(asked.pod)) {
    demands.push_back(demanded);
  }
  const KnownDrivers drivers = drivers_of(asked);
  if (!lacks_only(aim(), *authority_,
                  {.proof = &demands, .drivers = &drivers, .storage = storage_of(asked)},
                  asked.pod)) {
    return;
  }
  const Binding& by = binding(index);
  order_wish_ = DeletePod{.pod = asked.pod,
                          .incident = context_.incident,
                          .policy = by.name,
                          .policy_digest = by.digest,
                          .set_digest = context_.set->digest,
                          .why = why,
                          .attempt = context_.attempt,
                          .judged = around_.access.loop.now(),
                          .proof = std::move(demands),
                          .drivers = drivers,
                          .storage = storage_of(asked)};
  if (!guard_reads_spec()) {
    order_wish_->pod.raw.reset();
  }
}

// What policies demand that judged its node and select it.
policy::ProofDemands PodEvaluation::node_demands_on(const kube::Pod& pod) const {
  policy::ProofDemands demands;
  for (const auto& [index, demanded] : node_proof_) {
    const Binding& judge = binding(index);
    if (judge.scope.covers(pod.ref.space) && judge.policy->selects(pod.labels)) {
      demands.push_back(demanded);
    }
  }
  return demands;
}

void PodEvaluation::note_proof(policy::EvidenceSet demanded) {
  if (std::find(proof_.begin(), proof_.end(), demanded) == proof_.end()) {
    proof_.push_back(demanded);
  }
}

// Of a claim or volume that is missing, or could not be read, nobody knows the driver.
KnownDrivers PodEvaluation::drivers_of(const Case& asked) const {
  const auto& volumes = asked.known.facts.volumes;
  if (around_.in_force.protections.proof.drivers.empty() || !volumes || asked.pod.raw == nullptr ||
      !asked.known.volumes_missing.empty()) {
    return std::nullopt;
  }
  std::set<std::string> drivers = policy::inline_drivers(*asked.pod.raw);
  drivers.merge(policy::ephemeral_drivers(*asked.pod.raw));
  for (const policy::VolumeFacts& volume : *volumes) {
    if (volume.state != "bound") {
      return std::nullopt;
    }
    drivers.insert(volume.driver);
  }
  return drivers;
}

bool PodEvaluation::is_or_can_be_isolated() const {
  const auto power = sightings_of(*authority_).power;
  return power && (power->state.power == policy::Power::Isolated ||
                   (power->order && power->order->aim.power == policy::Power::Isolated));
}

std::set<std::string> PodEvaluation::storage_of(const Case& asked) const {
  return is_or_can_be_isolated() && asked.pod.raw != nullptr && asked.known.volumes_missing.empty()
             ? policy::storage_drivers(*asked.pod.raw, asked.known.facts.volumes)
             : std::set<std::string>();
}

void PodEvaluation::log_lines(const Binding& by, const kube::Pod& pod,
                              const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    around_.output.log.write(
        line.starts_with("warn") ? port::Log::Level::Warning : port::Log::Level::Info,
        "policy_says",
        {{"incident", context_.incident.text()},
         {"policy", by.name},
         {"pod", pod.ref.text()},
         {"text", line.substr(line.find(": ") + 2)}});
  }
}

std::optional<PodPlan> PodEvaluation::enforce(Case& asked, PassResult& result) {
  const Decision decision = resolve(asked.opinions, Mode::Enforce);
  verdict_log_.conflict(decision, asked.pod);
  verdict_log_.stop(decision, asked.pod);
  if (decision.kind != Decision::Kind::Act) {
    look_again(decision, asked, result);
    note_failures(decision, asked, result);
    if (decision.ask_again) {
      result.fail(
          "pod " + asked.pod.ref.text() + ": " + std::string(audit::code(Reason::PolicyFailed)),
          std::nullopt, Reason::PolicyFailed);
    }
    result.unfit = result.unfit || asked.unfit;
    return std::nullopt;
  }
  const Verdict& verdict = *decision.by->verdict;
  const std::string held = hold_text(authority_->node, authority_->reading.hold, asked.pod,
                                     authority_->namespaces, authority_->held_pods);
  if (!held.empty()) {
    verdict_log_.refusal(asked.pod, *decision.by, Reason::OnHold, held);
    result.hold(held, kHoldPause);
    return std::nullopt;
  }
  if (const auto obstacle = obstacle_to_release(asked, verdict)) {
    verdict_log_.refusal(asked.pod, *decision.by, obstacle->reason, obstacle->text);
    result.look_again = std::min(result.look_again.value_or(kObstacleRetry), kObstacleRetry);
    return std::nullopt;
  }
  if (verdict.release && around_.in_force.release.on) {
    for (const policy::VolumeFacts& volume : verdict.volumes) {
      if (!around_.in_force.release.attachers.contains(volume.driver)) {
        verdict_log_.mention_once(binding(decision.by->binding), Reason::AttacherUnwatched,
                                  volume.driver);
      }
    }
  }
  return pod_plan_of(asked, *decision.by);
}

std::optional<PodEvaluation::Obstacle> PodEvaluation::obstacle_to_release(const Case& asked,
                                                                          const Verdict& verdict) {
  if (!verdict.release || !around_.in_force.release.on) {
    return std::nullopt;
  }
  for (const policy::VolumeFacts& volume : verdict.volumes) {
    const std::string silence = silence_of_attacher(volume.driver, asked.known);
    if (!silence.empty()) {
      return Obstacle{.reason = Reason::AttacherSilent, .text = volume.driver + ": " + silence};
    }
    const auto attachment = asked.known.attachments.find(volume.attachment.value_or(std::string()));
    if (attachment != asked.known.attachments.end() && !attachment->second.detach_error.empty()) {
      return Obstacle{.reason = Reason::DetachError,
                      .text = attachment->first + ": " + attachment->second.detach_error};
    }
  }
  return std::nullopt;
}

std::string PodEvaluation::silence_of_attacher(const std::string& driver, const Gathered& known) {
  const auto found = known.attachers.find(driver);
  if (found == known.attachers.end()) {
    return {};
  }
  const Result<kube::Lease>& lease = found->second;
  const ObjectRef& ref = around_.in_force.release.attachers.at(driver);
  if (!lease) {
    return "nobody can read its Lease " + ref.text() + ": " + lease.error().message();
  }
  return memory_.renewals.silence(ref.text(), *lease, around_.access.when_written(*lease),
                                  known.began);
}

bool PodEvaluation::is_stopped(const Verdict& verdict) const {
  const auto writes = [this](const policy::VolumeFacts& volume) {
    // One of an old kind, which Kubernetes translates to CSI, is of no driver that refuses.
    return !is_stopped_by(evidence_there(sightings_of(
        *authority_, volume.handle.empty() ? std::set<std::string>() : std::set{volume.driver})));
  };
  return !verdict.volumes.empty() &&
         std::none_of(verdict.volumes.begin(), verdict.volumes.end(), writes);
}

PodPlan PodEvaluation::pod_plan_of(Case& asked, const Opinion& opinion) {
  const Binding& by = binding(opinion.binding);
  const Verdict& verdict = *opinion.verdict;
  PodPlan pod_plan;
  pod_plan.deletes_pod = verdict.kind != Verdict::Kind::DeleteAttachments;
  pod_plan.volumes = verdict.volumes;
  if (!pod_plan.deletes_pod) {
    const Moment since =
        memory_.deleting_since.try_emplace(asked.pod.uid, around_.access.loop.now()).first->second;
    const bool overdue = around_.access.loop.now() - since >= verdict.wait;
    pod_plan.deletes_pod = overdue && verdict.on_timeout == Verdict::OnTimeout::Delete;
    if (overdue) {
      verdict_log_.overdue(asked.pod, by,
                           "after " + format_duration(verdict.wait) +
                               (pod_plan.deletes_pod ? "; the pod is deleted all the same"
                                                     : "; the pod is held until they are gone"));
    }
  }
  pod_plan.releases = around_.in_force.release.on && (verdict.release || is_stopped(verdict)) &&
                      authority_->reading.out_of_service == Carried::Nothing &&
                      !has_no_object(authority_->reading);
  if (verdict.release && !around_.in_force.release.on) {
    verdict_log_.mention_once(by, Reason::ReleaseNotServed, verdict.reason);
  }
  KnownDrivers drivers = drivers_of(asked);
  std::set<std::string> storage = storage_of(asked);
  for (const policy::EvidenceSet& demanded : node_demands_on(asked.pod)) {
    asked.proof.push_back(demanded);
  }
  if (!guard_reads_spec()) {
    asked.pod.raw.reset();  // the policies have read it; what waits in a queue stays small
  }
  pod_plan.deletion = {.pod = std::move(asked.pod),
                       .incident = context_.incident,
                       .policy = by.name,
                       .policy_digest = by.digest,
                       .set_digest = context_.set->digest,
                       .why = verdict.reason,
                       .attempt = context_.attempt,
                       .judged = around_.access.loop.now(),
                       .proof = std::move(asked.proof),
                       .drivers = std::move(drivers),
                       .storage = std::move(storage),
                       .fail = verdict.fail,
                       .wall = asked.cluster.now};
  pod_plan.deletion.evidence = evidence_told(*authority_, pod_plan.deletion);
  return pod_plan;
}

void PodEvaluation::observe(const Case& asked, PassResult& result) {
  const Decision decision = resolve(asked.opinions, Mode::Observe);
  verdict_log_.conflict(decision, asked.pod);
  if (decision.kind != Decision::Kind::Act) {
    look_again(decision, asked, result);
    result.failed_observing += decision.ask_again ? 1 : 0;
    return;
  }
  observed_.push_back({.pod = asked.pod,
                       .by = *decision.by,
                       .drivers = drivers_of(asked),
                       .storage = storage_of(asked)});
  if (!guard_reads_spec()) {
    observed_.back().pod.raw.reset();
  }
}

std::set<Namespace> PodEvaluation::observed_spaces() const {
  std::set<Namespace> spaces;
  for (const Observed& observed : observed_) {
    spaces.insert(observed.pod.ref.space);
  }
  return spaces;
}

void PodEvaluation::tell_observed(PassResult& result) {
  for (const Observed& observed : std::exchange(observed_, {})) {
    tell_observed(observed, result);
  }
}

// The guard's own word: it may have more against it than the mode. What enforces the same policy
// here lets it pass; the age of the reading and the record matter to nobody who only looks, and so
// does a namespace that cannot be read.
void PodEvaluation::tell_observed(const Observed& observed, PassResult& result) {
  const kube::Pod& pod = observed.pod;
  const Binding& by = binding(observed.by.binding);
  const policy::ProofDemands proof = {observed.by.verdict->proof};
  auto refused = refuse_pod_deletion(*authority_,
                                     {.policy = by.name,
                                      .digest = by.digest,
                                      .set = context_.set->digest,
                                      .proof = &proof,
                                      .drivers = &observed.drivers,
                                      .storage = observed.storage},
                                     pod, around_.access.loop.now());
  result.policies_changed = result.policies_changed || refused == Reason::PolicyChanged;
  // Enforcing would have set our taint.
  const bool untainted =
      refused == Reason::NotTainted && around_.in_force.quarantine != Quarantine::Off;
  if (!refused || *refused == Reason::ReadingTooOld || *refused == Reason::NotRecorded ||
      *refused == Reason::HoldUnknown || untainted) {
    refused = Reason::ModeObserves;
  }
  if (refused == Reason::ModeObserves && observed.by.verdict->fail &&
      !around_.in_force.protections.fail_pods) {
    refused = Reason::FailingNotServed;
  }
  const std::string held = hold_text(authority_->node, authority_->reading.hold, pod,
                                     authority_->namespaces, authority_->held_pods);
  verdict_log_.refusal(pod, observed.by, *refused,
                       refused == Reason::OnHold ? held : observed.by.verdict->reason);
  if (refused == Reason::OnHold) {
    result.hold(held, kHoldPause);
  }
}

// Who yields has said it of the whole node, or is not due yet.
std::pair<Reason, std::string> PodEvaluation::wait_of(const Opinion& opinion) const {
  if (opinion.unproven) {
    return {Reason::ProofMissing, opinion.verdict->reason};
  }
  if (!opinion.yields) {
    return {reason_of(opinion.verdict->kind), opinion.verdict->reason};
  }
  if (standings_[opinion.binding].kind == Standing::Kind::NotDueYet) {
    return {Reason::HoldingDown, opinion.verdict->reason};
  }
  const auto hold = node_holds_.find(opinion.binding);
  if (unproven_nodes_.contains(opinion.binding)) {
    return {Reason::ProofMissing, hold->second->reason};
  }
  if (hold == node_holds_.end()) {
    return {Reason::PolicyWaits, opinion.verdict->reason};
  }
  return hold->second ? std::pair(Reason::PolicyHoldsNode, hold->second->reason)
                      : std::pair(Reason::PolicyFailed, std::string("it fails on the node"));
}

void PodEvaluation::look_again(const Decision& decision, const Case& asked,
                               PassResult& result) const {
  if (decision.look_again) {
    result.waits = true;
    if (result.waiting.empty() && decision.by != nullptr && decision.by->verdict) {
      const auto [reason, words] = wait_of(*decision.by);
      result.waits_for = reason;
      result.waiting = "pod " + asked.pod.ref.text() + ": policy " +
                       binding(decision.by->binding).name + ", " + words;
    }
    result.look_again =
        std::min(result.look_again.value_or(*decision.look_again), *decision.look_again);
    // Whatever else a policy waits for, the pod's deadline is a change of its own.
    const auto& deadline = asked.pod.deletion_timestamp;
    if (deadline && *deadline > asked.cluster.now) {
      const Moment look = around_.access.loop.now() + (*deadline - asked.cluster.now);
      result.look_by(look);
    }
  }
}

void PodEvaluation::note_failures(const Decision& decision, const Case& asked,
                                  PassResult& result) const {
  if (decision.kind != Decision::Kind::Held || decision.by->verdict) {
    return;  // somebody else's word counts
  }
  for (const Opinion& opinion : asked.opinions) {
    // A guard without a policy acts on nothing itself: it holds only what another would do.
    const bool holds = binding(opinion.binding).policy != nullptr || decision.stopped != nullptr;
    if (opinion.failed && opinion.mode == Mode::Enforce && holds) {
      result.held_by_failure.insert(binding(opinion.binding).name);
    }
  }
}

void PodEvaluation::tell_usage(const Binding& binding, const policy::Usage& usage) const {
  if (around_.output.ran) {
    around_.output.ran(binding.name, usage);
  }
}

}  // namespace moonfence::fence
