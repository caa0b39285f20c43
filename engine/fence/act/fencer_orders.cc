#include "fence/act/fencer_orders.h"

#include <utility>

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

constexpr const char* kAct = "switch-off";  // for FailedActs
constexpr const char* kWhat = "switching the machine off, or isolating it";

// The guard's word that another reading, other policies or the fencer's next answer change.
bool is_no_failure(Reason reason) {
  switch (reason) {
    case Reason::PowerNotOn:
    case Reason::OnHold:
    case Reason::HoldUnknown:
    case Reason::OutsideBinding:
    case Reason::PolicyForbids:
    case Reason::PolicyHolds:
    case Reason::PolicyHoldsNode:
    case Reason::PolicyWaits:
    case Reason::GuardFailed:
    case Reason::GuardBroken:
    case Reason::NeedsUnread:
    case Reason::SignalUnfit:
    case Reason::ProtectedNamespace:
    case Reason::OwnNode:
    case Reason::PodsUnknown:
    case Reason::NodeGone:
      return true;
    default:
      return false;
  }
}

}  // namespace

FencerOrders::FencerOrders(IncidentContext& surroundings,
                           std::shared_ptr<const Authority> authority, Memory& memory,
                           const PodEvaluation& pod_evaluation, std::function<void()> changed)
    : around_(surroundings),
      authority_(std::move(authority)),
      memory_(memory),
      pod_evaluation_(pod_evaluation),
      changed_(std::move(changed)),
      may_act_(around_.in_force.powers != nullptr && around_.in_force.powers->may_act()),
      alive_(std::make_shared<int>(0)) {}

void FencerOrders::saw(const kube::Pod& pod) {
  if (may_act_) {
    pods_->push_back(pod);
    pods_->back().raw.reset();
  }
}

// By the newest reading of the machine. Without one, or where there is nothing that a fencer may
// do, the pods' own records say what is missing.
std::optional<TellFencer> FencerOrders::order() const {
  const auto& wish = pod_evaluation_.order_wish();
  if (ended_ || !wish || authority_->powers == nullptr) {
    return std::nullopt;
  }
  const auto reading = authority_->powers->reading_of(authority_->node, authority_->node_uid);
  if (!reading || !reading->order) {
    return std::nullopt;
  }
  const auto& objection = pod_evaluation_.power_objection();
  return TellFencer{
      .waiting = *wish,
      .target = {.order = *reading->order,
                 .fencer = reading->fencer,
                 .pods = pods_,
                 .objection = objection ? std::optional(objection->reason) : std::nullopt}};
}

std::set<Namespace> FencerOrders::spaces() const {
  std::set<Namespace> spaces;
  const auto ordered = waits_ || outcome_ ? std::nullopt : order();
  if (!ordered || told_until(ordered->target.order)) {
    return spaces;
  }
  for (const kube::Pod& pod : *pods_) {
    spaces.insert(pod.ref.space);
  }
  return spaces;
}

// One storage after the other is told at once. Of a machine that is being switched off its fencer
// may be unable to say anything for a moment: no other one is told meanwhile.
std::optional<Moment> FencerOrders::told_until(const PowerOrder& order) const {
  const Powers* powers = around_.in_force.powers;
  const auto last = powers == nullptr ? std::nullopt : powers->last_order(authority_->node);
  const bool waits = last && around_.access.loop.now() - last->at < kAgain &&
                     (last->order == order || last->order.aim.power == policy::Power::Off);
  return waits ? std::optional(last->at + kAgain) : std::nullopt;
}

FencerOrders::Next FencerOrders::go_on(bool complete, Moment listed, Duration took,
                                       PassResult& result) {
  if (waits_) {
    return Next::Wait;
  }
  if (const auto outcome = std::exchange(outcome_, std::nullopt)) {
    return ended(*outcome, result);
  }
  auto ordered = order();
  const Moment now = around_.access.loop.now();
  if (const auto until = ordered ? told_until(ordered->target.order) : std::optional<Moment>()) {
    result.look_by(*until);
    return Next::Nothing;
  }
  if (!ordered || memory_.failed.still_failed(kAct, result)) {
    return Next::Nothing;
  }
  if (now - authority_->reading.sent > around_.in_force.leadership.limits().reading) {
    return read_node(result);
  }
  ordered->target.complete = complete;
  ordered->target.listed = listed;
  ordered->target.took = took;
  const auto refused = refuse(*ordered, *authority_, now);
  if (refused && *refused != Reason::ReadingTooOld) {
    const std::string more = *refused == Reason::OnHold ? hold_on_any(*authority_, ordered->target)
                             : ordered->target.objection == refused
                                 ? pod_evaluation_.power_objection()->text
                                 : std::string();
    tell(*ordered, *refused, more);
    return after({.reason = *refused, .retry_after = std::nullopt, .text = more}, result);
  }
  told_ = ordered->target.order;
  around_.in_force.powers->order_begins(authority_->node, *told_);
  waits_ = true;
  sending_ = true;
  around_.actions.perform(*std::move(ordered), authority_, alive_,
                          [this](const ActionOutcome& outcome) {
                            waits_ = false;
                            outcome_ = outcome;
                            if (!sending_) {
                              changed_();
                            }
                          });
  sending_ = false;
  return waits_ ? Next::Wait : ended(*std::exchange(outcome_, std::nullopt), result);
}

FencerOrders::Next FencerOrders::read_node(PassResult& result) {
  if (++readings_ <= kReadings) {
    return Next::ReadNode;
  }
  ended_ = true;
  memory_.failed.fail(kAct, kWhat, {.reason = Reason::ReadingTooOld, .retry_after = std::nullopt},
                      result, around_.access.loop.now());
  return Next::Nothing;
}

FencerOrders::Next FencerOrders::ended(const ActionOutcome& outcome, PassResult& result) {
  const bool may_have_arrived =
      outcome.reason == Reason::Done || outcome.reason == Reason::OutcomeLost;
  around_.in_force.powers->order_ended(authority_->node, *told_, may_have_arrived);
  if (may_have_arrived) {
    result.look_by(around_.access.loop.now() + kAgain);
  }
  return after(outcome, result);
}

FencerOrders::Next FencerOrders::after(const ActionOutcome& outcome, PassResult& result) {
  if (outcome.reason == Reason::ReadingTooOld) {
    return read_node(result);
  }
  ended_ = true;
  const Moment now = around_.access.loop.now();
  if (outcome.reason == Reason::Done) {
    memory_.failed.succeeded(kAct);
  } else if (outcome.reason == Reason::PolicyChanged) {
    result.policies_changed = true;
  } else if (outcome.reason == Reason::LeaseAlive || outcome.reason == Reason::LeaseUnreadable ||
             outcome.reason == Reason::KernelAnswers || outcome.reason == Reason::KernelUnsure) {
    result.unfit = true;
  } else if (is_no_failure(outcome.reason)) {
    result.hold(outcome.about(kWhat), kProofPause, outcome.reason);
  } else if (is_braking(outcome.reason)) {
    result.braked = outcome.reason;
  } else {
    memory_.failed.fail(kAct, kWhat, outcome, result, now);
  }
  return Next::Nothing;
}

// Once in an incident, unless it is another's word.
void FencerOrders::tell(const TellFencer& order, Reason reason, const std::string& more) {
  if (!memory_.mentioned.emplace(order.waiting.policy + " switch off " + more, reason).second) {
    return;
  }
  const Form form = form_of(order, *authority_);
  Record record = form.told;
  record.kind = Record::Kind::Refusal;
  record.reason = reason;
  record.text = more.empty() ? form.why : more + "; " + form.why;
  (void)around_.output.trail.write(record);
}

}  // namespace moonfence::fence
