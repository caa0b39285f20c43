#include "fence/incident/incident_machine.h"

#include <algorithm>

#include "base/check.h"
#include "fence/brake/brake.h"

namespace moonfence::fence {

using audit::Reason;
using cluster::Readiness;

std::string_view to_string(IncidentMachine::State state) {
  switch (state) {
    case IncidentMachine::State::Holding:
      return "holding";
    case IncidentMachine::State::Confirming:
      return "confirming";
    case IncidentMachine::State::Operating:
      return "operating";
    case IncidentMachine::State::Resting:
      return "resting";
    case IncidentMachine::State::Verifying:
      return "verifying";
    case IncidentMachine::State::Closed:
      return "closed";
  }
  return "closed";
}

std::optional<Reason> IncidentMachine::ends(Readiness readiness, const Uid& uid) const {
  if (readiness == Readiness::Gone && !rules_.hold_downs.deleted_silent) {
    return Reason::NodeGone;
  }
  if (uid != node_uid_) {
    return Reason::NodeReplaced;
  }
  if (readiness == Readiness::Gone) {
    return std::nullopt;
  }
  return cluster::is_down(readiness) ? std::nullopt : std::optional(Reason::NodeReady);
}

IncidentMachine::Effects IncidentMachine::open(const cluster::NodeView& view, Moment now) {
  seen_ = view.readiness;
  if (const auto reason = ends(view.readiness, view.uid)) {
    return close(*reason);
  }
  return begin(view.keeps_replacements_off, now);
}

IncidentMachine::Effects IncidentMachine::begin(bool tainted, Moment now) {
  const auto due = due_by_belief();
  if (!due) {
    return start_pass(now);  // only the Lease can tell whether the kubelet is silent after all
  }
  if (now < *due) {
    return hold(Reason::HoldingDown, due, now);
  }
  // Nothing can be bound to a node that is not there.
  const bool kept_off = tainted || seen_ == Readiness::Gone;
  if (kept_off || may_quarantine()) {
    return start_pass(now);
  }
  Effects effects = await_taint(now);
  effects.emplace_back(PlanAhead{});
  return effects;
}

bool IncidentMachine::holds_for(For what) const {
  const auto* holding = std::get_if<Holding>(&state_);
  return holding != nullptr && holding->what == what;
}

std::optional<Moment> IncidentMachine::next_pass() const {
  if (const auto* resting = std::get_if<Resting>(&state_)) {
    return resting->until;
  }
  const auto* holding = std::get_if<Holding>(&state_);
  return holding != nullptr ? holding->until : std::nullopt;
}

IncidentMachine::Pass* IncidentMachine::pass_under_way() {
  Pass* const operating = std::get_if<Operating>(&state_);
  return operating != nullptr ? operating : std::get_if<Confirming>(&state_);
}

IncidentMachine::Effects IncidentMachine::node_seen(const cluster::NodeView& view, Moment now) {
  if (state() == State::Closed || (outlives_ && view.uid != node_uid_)) {
    return {};
  }
  if (const auto reason = ends(view.readiness, view.uid)) {
    return close(*reason);
  }
  const bool vanished = view.readiness == Readiness::Gone && seen_ != Readiness::Gone;
  seen_ = view.readiness;
  if (Pass* pass = pass_under_way()) {
    // Its reading will tell, or the next pass.
    pass->news = std::max(pass->news, vanished ? News::Gone : News::Down);
    return {};
  }
  if (is_braked()) {
    return {};  // what is news now is read when the brake lets go
  }
  const auto due = due_by_belief();
  const auto* resting = std::get_if<Resting>(&state_);
  const bool unfit = holds_for(For::Silence) || (resting != nullptr && resting->unfit);
  if (vanished) {
    return due && now < *due ? hold(Reason::HoldingDown, due, now) : start_next_pass(now);
  }
  const bool waits = unfit ? seen_ == Readiness::Unknown : state() == State::Holding;
  if (!waits || !due) {
    return {};
  }
  if (now < *due) {
    // The same hold-down needs no second timer; that of another signal does.
    return due == next_pass() ? Effects{} : hold(Reason::HoldingDown, due, now);
  }
  return view.keeps_replacements_off ? start_pass(now) : Effects{};
}

IncidentMachine::Effects IncidentMachine::timer_fired(Moment now) {
  if (state() == State::Verifying) {
    return close(Reason::Unreplaced);
  }
  const bool waits = state() == State::Holding || state() == State::Resting;
  return waits ? start_pass(now) : Effects{};
}

IncidentMachine::Effects IncidentMachine::storage_moved(Moment now) {
  return state() == State::Resting ? start_pass(now) : Effects{};
}

IncidentMachine::Effects IncidentMachine::replacements_ready() {
  return state() == State::Verifying ? close(Reason::Settled) : Effects{};
}

bool IncidentMachine::may_hear() const {
  return state() == State::Resting && next_.is_free() && !failing_;
}

IncidentMachine::Effects IncidentMachine::pods_changed(Moment now) {
  if (!may_hear()) {
    return {};
  }
  next_.keep_look();
  return start_pass(now);
}

IncidentMachine::Effects IncidentMachine::confirmed(const std::optional<Reading>& reading,
                                                    Moment now) {
  Pass* pass = pass_under_way();
  if (pass == nullptr) {
    return {};
  }
  if (!reading) {
    return await_readable(Reason::Unreadable, now);
  }
  const bool overtaken = pass->news != News::None;
  if (const auto reason = ends(reading->readiness, reading->uid)) {
    return overtaken && *reason == Reason::NodeReady ? rest(now + rules_.taint_poll, now)
                                                     : close(*reason);
  }
  const bool deleted = reading->readiness == Readiness::Gone;
  const auto* operating = std::get_if<Operating>(&state_);
  if (operating != nullptr && deleted != operating->of_deleted) {
    return start_next_pass(now);  // it was decided about another kind of down
  }
  pass->news = deleted ? std::min(pass->news, News::Down) : pass->news;  // it has read that much
  seen_ = overtaken ? seen_ : reading->readiness;
  pass->silence_at = silence_by(*reading, now);
  const auto due = due_by(*reading);
  if (!due) {
    return await_silence(*pass, *reading, now);
  }
  if (now < *due || !reading->keeps_replacements_off) {
    next_.is_readable();
  }
  if (now < *due) {
    return hold(Reason::HoldingDown, due, now);
  }
  if (!reading->keeps_replacements_off && !may_quarantine()) {
    return await_taint(now);
  }
  if (operating != nullptr) {
    return {};  // read again in the middle of a pass: it may go on
  }
  next_.pass_acts(pass->started, now);
  state_ = Operating{*pass, deleted};
  return {Act{}};
}

IncidentMachine::Effects IncidentMachine::pass_ended(const PassResult& result, Moment now) {
  if (state() != State::Operating) {
    return {};
  }
  const Pass pass = *pass_under_way();
  next_.note_deletions(result);
  if (result.braked) {
    return braked(*result.braked, now);
  }
  if (pass.outdated || pass.news == News::Gone || result.policies_changed) {
    return start_next_pass(now);
  }
  if (result.untainted) {
    next_.end_window();
    Effects effects = await_taint(now, result.retry_after.value_or(Duration::zero()));
    note_failure(pass, result, now, effects);
    return effects;
  }
  untainted_ = 0;
  const bool fell_silent = result.unfit && pass.news != News::None && seen_ == Readiness::Unknown;
  const auto next = next_.after(pass.started, result, fell_silent, now);
  Effects effects = result.unreadable ? Effects{Hold{Reason::Unreadable}} : Effects{};
  note_failure(pass, result, next, effects);
  note_waiting(pass, result, next, effects);
  const Effects then = go_on(pass, result, next, now);
  effects.insert(effects.end(), then.begin(), then.end());
  return effects;
}

IncidentMachine::Effects IncidentMachine::go_on(const Pass& pass, const PassResult& result,
                                                std::optional<Moment> next, Moment now) {
  if (next) {
    return rest(*next, now, result.unfit);
  }
  if (result.unfit) {
    return hold(Reason::SignalUnfit, pass.silence_at, now, For::Silence);
  }
  // A pod may have been bound to the node before its taint was seen; not to one that is not there.
  const bool may_bind = !outlives_ && seen_ != Readiness::Gone;
  const auto look = may_bind ? next_.last_look(now) : std::nullopt;
  return look ? rest(*look, now) : settle(result, now);
}

void IncidentMachine::note_failure(const Pass& pass, const PassResult& result,
                                   std::optional<Moment> next, Effects& effects) {
  if (has_failed(result) || result.untainted) {
    failing_ = failing_.value_or(Failing{.since = pass.started});
  } else if (!result.unreadable) {  // that pass has seen too little to say
    failing_.reset();
  }
  if (failing_ && next && *next >= failing_->since + rules_.tell_failing_after) {
    failing_->told = true;
    effects.emplace_back(Hold{Reason::StillFailing});
  }
}

void IncidentMachine::note_waiting(const Pass& pass, const PassResult& result,
                                   std::optional<Moment> next, Effects& effects) {
  if (result.waits) {
    waiting_since_ = waiting_since_.value_or(pass.started);
  } else if (!result.unreadable) {  // that pass has seen too little to say
    waiting_since_.reset();
  }
  // Of what fails beside that is told; a wait that failing policies cause is theirs.
  if (result.waits && next && *next >= *waiting_since_ + rules_.tell_waiting_after) {
    effects.emplace_back(Hold{Reason::StillWaiting});
  }
}

IncidentMachine::Effects IncidentMachine::policies_changed(const HoldDowns& hold_downs,
                                                           Moment now) {
  if (state() == State::Closed) {
    return {};
  }
  rules_.hold_downs = hold_downs;
  if (!hold_downs.silent && !hold_downs.living) {
    return close(Reason::NoPolicy);
  }
  if (seen_ == Readiness::Gone && !hold_downs.deleted_silent) {
    return close(Reason::NodeGone);
  }
  if (Pass* pass = pass_under_way()) {
    pass->outdated = true;
    return {};
  }
  // The live reading will tell whether the taint is there.
  const auto due = due_by_belief();
  return due && now >= *due ? start_next_pass(now) : begin(/*tainted=*/false, now);
}

IncidentMachine::Effects IncidentMachine::braked(Reason reason, Moment now) {
  if (pass_under_way() == nullptr) {
    return {};
  }
  next_.end_window();
  return hold(reason, std::nullopt, now, For::Brake);
}

IncidentMachine::Effects IncidentMachine::brake_released(Moment now) {
  return is_braked() ? begin(/*tainted=*/true, now) : Effects{};  // the live reading will tell
}

bool IncidentMachine::in_progress() const {
  return state() == State::Confirming || state() == State::Operating ||
         (state() == State::Resting && next_.is_in_window());
}

IncidentMachine::Effects IncidentMachine::stop(Reason reason) {
  return state() == State::Closed ? Effects{} : close(reason);
}

std::optional<Moment> IncidentMachine::due_by(const Reading& reading) const {
  const HoldDowns& after = rules_.hold_downs;
  const bool deleted = reading.readiness == Readiness::Gone;
  if (is_kept_by_kernel(reading)) {
    return due_after(after.answering);
  }
  if (reading.kubelet_lease == KubeletLease::Dead) {
    return due_after(deleted ? after.deleted_silent : after.silent);
  }
  if (deleted) {
    return due_after(after.deleted_living);
  }
  return reading.readiness == Readiness::Unknown ? std::nullopt : due_after(after.living);
}

Moment IncidentMachine::silence_by(const Reading& reading, Moment now) const {
  if (is_kept_by_kernel(reading)) {
    const bool answers = reading.kernel == cluster::Kernel::Answers;
    return now + (answers ? rules_.kernel_poll : rules_.taint_poll);
  }
  return reading.kubelet_lease == KubeletLease::Unread ? now + rules_.unreadable_interval_max
                                                       : reading.dead_at;
}

std::optional<Moment> IncidentMachine::due_by_belief() const {
  if (seen_ == Readiness::Gone) {
    return due_after(rules_.hold_downs.deleted_silent);
  }
  return due_after(seen_ == Readiness::Unknown ? rules_.hold_downs.silent
                                               : rules_.hold_downs.living);
}

std::optional<Moment> IncidentMachine::due_after(const std::optional<Duration>& hold_down) const {
  return hold_down ? std::optional(down_since_ + *hold_down) : std::nullopt;
}

IncidentMachine::Effects IncidentMachine::hold(Reason reason, std::optional<Moment> until,
                                               Moment now, For what) {
  state_ = Holding{what, until};
  // What keeps it now is something else; but the brake and our doubt pass, and then it fails on.
  if (reason != Reason::AwaitingTaint && !is_braking(reason)) {
    next_.end_pauses();
    failing_.reset();
    waiting_since_.reset();
  }
  Effects effects = {CancelTimer{}, CancelPass{}, Hold{reason}};
  if (until) {
    effects.emplace_back(SetTimer{std::max(*until - now, Duration::zero())});
  }
  return effects;
}

IncidentMachine::Effects IncidentMachine::await_silence(const Pass& pass, const Reading& reading,
                                                        Moment now) {
  const bool unknown = reading.readiness == Readiness::Unknown;
  if (unknown && reading.kubelet_lease == KubeletLease::Unread) {
    return await_readable(Reason::LeaseUnreadable, now);
  }
  next_.is_readable();
  if (pass.news != News::None) {
    return rest(now + rules_.taint_poll, now);
  }
  if (is_kept_by_kernel(reading)) {
    const bool answers = reading.kernel == cluster::Kernel::Answers;
    return hold(answers ? Reason::KernelAnswers : Reason::KernelUnsure, pass.silence_at, now);
  }
  return hold(unknown ? Reason::LeaseAlive : Reason::SignalUnfit, pass.silence_at, now);
}

IncidentMachine::Effects IncidentMachine::await_readable(Reason reason, Moment now) {
  const auto* confirming = std::get_if<Confirming>(&state_);
  const auto unused = confirming != nullptr ? std::optional(confirming->started) : std::nullopt;
  Effects effects = rest(next_.after_unreadable(unused, now), now);
  effects.insert(effects.begin(), Hold{reason});
  return effects;
}

bool IncidentMachine::may_quarantine() const {
  return rules_.quarantine == Quarantine::Always ||
         (rules_.quarantine == Quarantine::Missing && untainted_ > 0);
}

IncidentMachine::Effects IncidentMachine::await_taint(Moment now, Duration at_least) {
  const Duration doubled = rules_.taint_poll * (1 << std::min(untainted_, 8U));
  ++untainted_;
  const Duration pause = std::max(at_least, std::min(doubled, rules_.unreadable_interval_max));
  return hold(Reason::AwaitingTaint, now + pause, now);
}

IncidentMachine::Effects IncidentMachine::start_pass(Moment now) {
  state_ = Confirming{{.started = now}};
  ++passes_;
  return {CancelTimer{}, StartPass{}};
}

IncidentMachine::Effects IncidentMachine::start_next_pass(Moment now) {
  next_.begin_anew();
  Effects effects = start_pass(now);
  effects.insert(effects.begin(), CancelPass{});
  return effects;
}

IncidentMachine::Effects IncidentMachine::rest(Moment until, Moment now, bool unfit) {
  state_ = Resting{until, unfit};
  return {CancelPass{}, SetTimer{std::max(until - now, Duration::zero())}};
}

IncidentMachine::Effects IncidentMachine::settle(const PassResult& result, Moment now) {
  if (!result.unreplaced || rules_.replacement_wait == Duration::zero()) {
    return close(Reason::Settled);
  }
  const Moment first = result.unverified ? now + rules_.first_verification : now;
  const Moment until = std::max(*result.unreplaced + rules_.replacement_wait, first);
  if (now >= until) {
    return close(Reason::Unreplaced);
  }
  state_ = Verifying{};
  return {CancelPass{}, SetTimer{until - now}};
}

IncidentMachine::Effects IncidentMachine::close(Reason reason) {
  state_ = Closed{};
  return {CancelTimer{}, CancelPass{}, Close{reason}};
}

}  // namespace moonfence::fence
