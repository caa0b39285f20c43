#include "fence/act/out_of_service_setter.h"

#include <algorithm>
#include <utility>

#include "fence/act/steps.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// When the pass after the taint begins.
constexpr Duration kSoon = std::chrono::milliseconds(10);
// The longest pause after a taint that somebody had dropped.
constexpr Duration kLongestPause = std::chrono::seconds(60);
constexpr unsigned kMostDoublings = 6;
constexpr const char* kAct = "out-of-service";  // for FailedActs

// It is no failure: another configuration, other policies, other pods or another server change it,
// and it is looked at again as long as the node is down.
bool is_kept_in_service(Reason reason) {
  switch (reason) {
    case Reason::OnHold:
    case Reason::ProofMissing:
    case Reason::TaintNotServed:
    case Reason::TaintNotAllowed:
    case Reason::OutsideBinding:
    case Reason::PolicyForbids:
    case Reason::PolicyHolds:
    case Reason::PolicyHoldsNode:
    case Reason::PolicyWaits:
    case Reason::SignalUnfit:
    case Reason::ModeObserves:  // a binding that only observes has a pod that would be evicted
    case Reason::ProtectedNamespace:
    case Reason::MirrorPod:
    case Reason::DaemonSetPod:
    case Reason::FinishedPod:
    case Reason::BarePod:
    case Reason::OwnerNotController:
      return true;
    default:
      return false;
  }
}

}  // namespace

OutOfServiceSetter::OutOfServiceSetter(IncidentContext& surroundings, const PassContext& context,
                                       std::shared_ptr<const Authority> authority, Memory& memory,
                                       const PodEvaluation& pod_evaluation,
                                       std::function<void()> changed)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      pod_evaluation_(pod_evaluation),
      changed_(std::move(changed)),
      may_taint_(may_taint(*context.set)),
      alive_(std::make_shared<int>(0)) {}

void OutOfServiceSetter::retire() {
  version_call_.reset();
  alive_.reset();
}

void OutOfServiceSetter::saw(const kube::Pod& pod) {
  if (may_taint_ && is_evicted(pod)) {
    evicted_.push_back(pod);
    evicted_.back().raw.reset();
  }
}

// kube-controller-manager, which writes the whole list of taints from a picture that may be old,
// can drop ours; our annotation stays. Another set of policies has to wish it anew.
std::optional<TaintWish> OutOfServiceSetter::wish() const {
  if (pod_evaluation_.taint_wish()) {
    return pod_evaluation_.taint_wish();
  }
  const bool dropped = authority_->reading.out_of_service == Carried::MarkOnly;
  const auto& before = memory_.retired_for;
  const bool guarded = before && (before->pod || !evicted_.empty());
  return dropped && guarded && before->set_digest == context_.set->digest ? before : std::nullopt;
}

OutOfServiceSetter::Next OutOfServiceSetter::go_on(const kube::Node& node, bool complete,
                                                   const Picture& picture, PassResult& result) {
  auto wished = wish();
  if (ended_ || !wished) {
    return Next::Nothing;
  }
  wished->evidence = evidence(*wished);
  if (waits_) {
    return Next::Wait;
  }
  if (const auto outcome = std::exchange(outcome_, std::nullopt)) {
    return after(*wished, *outcome, result);
  }
  if (is_in_place(authority_->reading.out_of_service)) {
    return succeed(*wished, result);  // a reply was lost, or somebody else was faster
  }
  if (memory_.failed.still_failed(kAct, result)) {
    ended_ = true;
    return Next::Nothing;
  }
  if (memory_.retired >= kTimes) {
    tell(*wished, Reason::NodeChanged, nullptr, "");
  }
  if (!version_asked_) {
    read_version();
    return Next::Wait;
  }
  if (around_.access.loop.now() - authority_->reading.sent >
      around_.in_force.leadership.limits().reading) {
    return Next::ReadNode;
  }
  return attempt(*wished, node, eviction(*wished, complete, picture), result);
}

// Where the pods that it evicts, or the policy that wishes it, demand some.
std::string OutOfServiceSetter::evidence(const TaintWish& wish) const {
  bool is_demanded = !policy::to_text(wish.proof).empty() || !pod_evaluation_.proof().empty();
  for (const kube::Pod& pod : evicted_) {
    const auto demands = around_.in_force.protections.proof.of(pod.ref.space, std::nullopt);
    is_demanded = is_demanded || !policy::to_text(demands).empty();
  }
  return is_demanded ? evidence_text(sightings_of(*authority_)) : std::string();
}

std::set<Namespace> OutOfServiceSetter::spaces() const {
  std::set<Namespace> spaces;
  const auto wished = wish();
  if (ended_ || !wished) {
    return spaces;
  }
  for (const kube::Pod& pod : evicted_) {
    spaces.insert(pod.ref.space);
  }
  if (wished->pod) {
    spaces.insert(wished->pod->ref.space);
  }
  return spaces;
}

void OutOfServiceSetter::read_version() {
  version_asked_ = true;
  waits_ = true;
  version_call_ =
      around_.access.reader.get("/version", [this](const Result<kube::ApiReply>& reply) {
        version_call_.reset();
        waits_ = false;
        version_ = reply ? minor_version(reply->body) : std::nullopt;
        if (!reply) {
          around_.output.log.warning("version_unreadable", {{"error", reply.error().message()}});
        }
        changed_();
      });
}

// The guard has a pod to go by also when all that it evicts are gone.
std::shared_ptr<const Eviction> OutOfServiceSetter::eviction(const TaintWish& wish, bool complete,
                                                             const Picture& picture) const {
  const auto& objection = pod_evaluation_.objection();
  std::vector<kube::Pod> pods = evicted_;
  if (pods.empty() && wish.pod) {
    pods.push_back(*wish.pod);
  }
  policy::ProofDemands proof = pod_evaluation_.proof();
  proof.insert(proof.end(), wish.proof.begin(), wish.proof.end());
  return std::make_shared<const Eviction>(
      Eviction{.pods = std::move(pods),
               .complete = complete,
               .listed = picture.listed,
               .took = picture.took,
               .objection = objection ? std::optional(objection->reason) : std::nullopt,
               .kubernetes = version_,
               .proof = std::move(proof)});
}

OutOfServiceSetter::Next OutOfServiceSetter::attempt(const TaintWish& wish, const kube::Node& node,
                                                     std::shared_ptr<const Eviction> eviction,
                                                     PassResult& result) {
  const Ground ground = {
      .policy = wish.policy, .digest = wish.policy_digest, .set = wish.set_digest};
  const kube::Pod* about = nullptr;
  const auto reason =
      refuse_out_of_service(*authority_, ground, *eviction, around_.access.loop.now(), &about);
  if (reason && (reason != Reason::NotRecorded || recorded_)) {
    const std::string missing = *reason == Reason::ProofMissing
                                    ? missing_proof_of_any(*authority_, *eviction)
                                    : std::string();
    tell(wish, *reason, about, missing);
    return end({.reason = *reason, .retry_after = std::nullopt, .text = missing}, result);
  }
  if (reason) {
    record(wish);
    return waits_ ? Next::Wait
                  : end({.reason = Reason::NotRecorded, .retry_after = std::nullopt}, result);
  }
  send(wish, node, std::move(eviction));
  if (const auto outcome = std::exchange(outcome_, std::nullopt)) {
    return after(wish, *outcome, result);  // the guard's own refusal comes at once
  }
  return Next::Wait;
}

// The process may die at any instant: whoever comes after us must know of it.
void OutOfServiceSetter::record(const TaintWish& wish) {
  recorded_ = true;
  if (authority_->ledger == nullptr) {
    return;
  }
  waits_ = true;
  authority_->ledger->plan(step_of(wish, authority_->node_uid));
  around_.output.journal.save(authority_->ledger,
                              [this, alive = std::weak_ptr<const void>(alive_)](bool /*stands*/) {
                                if (!alive.expired()) {
                                  waits_ = false;
                                  changed_();
                                }
                              });
}

void OutOfServiceSetter::send(const TaintWish& wish, const kube::Node& node,
                              std::shared_ptr<const Eviction> eviction) {
  ++attempts_;
  waits_ = true;
  sending_ = true;
  const FenceMark mark = mark_for(node, context_.incident, around_.access.cluster_facts().now,
                                  authority_->reading.renewed, OwnTaint::OutOfService);
  around_.actions.perform(
      SetOutOfService{.incident = context_.incident,
                      .policy = wish.policy,
                      .policy_digest = wish.policy_digest,
                      .set_digest = wish.set_digest,
                      .why = wish.why,
                      .attempt = context_.attempt,
                      .eviction = std::move(eviction),
                      .evidence = wish.evidence,
                      .operations = operations_to_set(node, mark, OwnTaint::OutOfService)},
      authority_, alive_, [this](const ActionOutcome& outcome) {
        waits_ = false;
        outcome_ = outcome;
        if (!sending_) {
          changed_();
        }
      });
  sending_ = false;
}

OutOfServiceSetter::Next OutOfServiceSetter::after(const TaintWish& wish,
                                                   const ActionOutcome& outcome,
                                                   PassResult& result) {
  switch (outcome.reason) {
    case Reason::Done:
      return succeed(wish, result);
    case Reason::NodeChanged:
    case Reason::OutcomeLost:
    case Reason::ReadingTooOld:
      if (attempts_ < (memory_.retire_failed ? 1 : kAttempts)) {
        return Next::ReadNode;
      }
      break;
    default:
      break;
  }
  return end(outcome, result);
}

// Its pods are judged by a reading that shows the taint. With somebody who takes it off as often
// as we set it, pauses grow.
OutOfServiceSetter::Next OutOfServiceSetter::succeed(const TaintWish& wish, PassResult& result) {
  memory_.retired_for = wish;
  memory_.failed.succeeded(kAct);
  memory_.retire_failed = false;
  ended_ = true;
  const Duration pause =
      memory_.retired == 0
          ? kSoon
          : std::min<Duration>(
                std::chrono::seconds(1U << std::min(memory_.retired, kMostDoublings)),
                kLongestPause);
  memory_.retired += attempts_ > 0 ? 1 : 0;
  result.look_again = std::min(result.look_again.value_or(pause), pause);
  return Next::Nothing;
}

OutOfServiceSetter::Next OutOfServiceSetter::end(const ActionOutcome& outcome, PassResult& result) {
  const Reason reason = outcome.reason;
  ended_ = true;
  memory_.retire_failed = false;
  if (reason == Reason::PolicyChanged) {
    result.policies_changed = true;
  } else if (reason == Reason::LeaseAlive || reason == Reason::LeaseUnreadable ||
             reason == Reason::KernelAnswers || reason == Reason::KernelUnsure) {
    result.unfit = true;
  } else if (is_kept_in_service(reason)) {
    result.hold(outcome.about("taint node.kubernetes.io/out-of-service"),
                reason == Reason::ProofMissing ? kProofPause : kHoldPause, reason);
  } else if (is_braking(reason)) {
    result.braked = reason;
  } else {
    memory_.retire_failed = true;
    memory_.failed.fail(kAct, "taint node.kubernetes.io/out-of-service", outcome, result,
                        around_.access.loop.now());
  }
  return Next::Nothing;
}

void OutOfServiceSetter::tell(const TaintWish& wish, Reason reason, const kube::Pod* about,
                              const std::string& more) {
  if (!memory_.mentioned.emplace(wish.policy + " out of service", reason).second) {
    return;
  }
  Record record;
  record.kind = Record::Kind::Refusal;
  record.reason = reason;
  record.incident = context_.incident;
  record.node = authority_->node;
  record.node_uid = authority_->node_uid;
  record.policy = wish.policy;
  record.policy_digest = wish.policy_digest;
  record.action = "taint_out_of_service";
  record.attempt = context_.attempt;
  if (about != nullptr) {
    record.pod = about->ref;
    record.pod_uid = about->uid;
  }
  record.text = text_of(wish, reason) + (more.empty() ? "" : "; " + more);
  (void)around_.output.trail.write(record);
}

std::string OutOfServiceSetter::text_of(const TaintWish& wish, Reason reason) const {
  std::string text = wish.why;
  if (reason == Reason::TaintNotServed) {
    text.append("; the server is Kubernetes 1.").append(std::to_string(version_.value_or(0)));
  } else if (pod_evaluation_.objection() && reason == pod_evaluation_.objection()->reason) {
    text.append("; ").append(pod_evaluation_.objection()->text);
  }
  return text;
}

}  // namespace moonfence::fence
