#include "fence/incident/incident_machine.h"

#include <algorithm>
#include <utility>

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
    held_until_ = *due;
    return hold(Reason::HoldingDown, *due - now);
  }
  // Nothing can be bound to a node that is not there.
  const bool kept_off = tainted || seen_ == Readiness::Gone;
  if (kept_off || may_quarantine()) {
    return start_pass(now);
  }
  Effects effects = await_taint();
  effects.emplace_back(PlanAhead{});
  return effects;
}

IncidentMachine::Effects IncidentMachine::node_seen(const cluster::NodeView& view, Moment now) {
  if (state_ == State::Closed) {
    return {};
  }
  if (outlives_ && view.uid != node_uid_) {
    return {};
  }
  if (const auto reason = ends(view.readiness, view.uid)) {
    return close(*reason);
  }
  overtaken_ = true;
  const bool vanished = view.readiness == Readiness::Gone && seen_ != Readiness::Gone;
  seen_ = view.readiness;
  if (is_braked()) {
    return {};  // what is news now is read when the brake lets go
  }
  if (vanished) {
    return vanish(now);
  }
  if (left_unfit_ && seen_ != Readiness::Unknown) {
    return {};
  }
  const bool waits = state_ == State::Holding || (state_ == State::Resting && left_unfit_);
  const auto due = due_by_belief();
  if (!waits || !due) {
    return {};
  }
  if (now < *due) {
    // The same hold-down needs no second timer; that of another signal does.
    return *due == held_until_ ? Effects{} : begin(view.keeps_replacements_off, now);
  }
  return view.keeps_replacements_off ? start_pass(now) : Effects{};
}

IncidentMachine::Effects IncidentMachine::vanish(Moment now) {
  if (state_ == State::Confirming || state_ == State::Operating) {
    vanished_ = true;  // its reading will tell, or the next pass
    return {};
  }
  const auto due = due_by_belief();
  return due && now >= *due ? start_next_pass(now) : begin(/*tainted=*/true, now);
}

IncidentMachine::Effects IncidentMachine::timer_fired(Moment now) {
  switch (state_) {
    case State::Holding:
    case State::Resting:
      return start_pass(now);
    case State::Verifying:
      return close(Reason::Unreplaced);
    case State::Confirming:
    case State::Operating:
    case State::Closed:
      return {};
  }
  return {};
}

IncidentMachine::Effects IncidentMachine::storage_moved(Moment now) {
  return state_ == State::Resting ? start_pass(now) : Effects{};
}

IncidentMachine::Effects IncidentMachine::replacements_ready() {
  return state_ == State::Verifying ? close(Reason::Settled) : Effects{};
}

bool IncidentMachine::may_hear() const {
  return state_ == State::Resting && !first_action_pass_ && !failing_since_ && unreadable_ == 0;
}

IncidentMachine::Effects IncidentMachine::pods_changed(Moment now) {
  if (!may_hear()) {
    return {};
  }
  if (looking_) {  // that look was to be later
    ++looks_left_;
    looking_ = false;
  }
  return start_pass(now);
}

IncidentMachine::Effects IncidentMachine::confirmed(const std::optional<Reading>& reading,
                                                    Moment now) {
  if (state_ != State::Confirming && state_ != State::Operating) {
    return {};
  }
  if (!reading) {
    return await_readable(Reason::Unreadable, now);
  }
  if (const auto reason = ends(reading->readiness, reading->uid)) {
    return overtaken_ && *reason == Reason::NodeReady ? rest(rules_.taint_poll) : close(*reason);
  }
  const bool deleted = reading->readiness == Readiness::Gone;
  if (state_ == State::Operating && deleted != judged_deleted_) {
    return start_next_pass(now);  // it was decided about another kind of down
  }
  vanished_ = vanished_ && !deleted;
  seen_ = overtaken_ ? seen_ : reading->readiness;
  silence_at_ = reading->kubelet_lease == KubeletLease::Unread
                    ? now + rules_.unreadable_interval_max
                    : reading->dead_at;
  const auto due = due_by(*reading);
  if (!due) {
    return await_silence(*reading, now);
  }
  if (now < *due || !reading->keeps_replacements_off) {
    unreadable_ = 0;
  }
  if (now < *due) {
    held_until_ = *due;
    return hold(Reason::HoldingDown, *due - now);
  }
  if (!reading->keeps_replacements_off && !may_quarantine()) {
    return await_taint();
  }
  if (state_ == State::Operating) {
    return {};  // read again in the middle of a pass: it may go on
  }
  state_ = State::Operating;
  judged_deleted_ = deleted;
  if (!first_action_pass_) {
    first_action_pass_ = pass_started_;
  }
  acts_since_ = acts_since_.value_or(now);
  return {Act{}};
}

IncidentMachine::Effects IncidentMachine::pass_ended(const PassResult& result, Moment now) {
  if (state_ != State::Operating) {
    return {};
  }
  MOONFENCE_CHECK(first_action_pass_.has_value());
  // However the pass ended. One that looks after others begins no further looks.
  deleted_ = deleted_ || (result.deleted > 0 && !looking_);
  if (result.braked) {
    return braked(*result.braked);
  }
  if (outdated_ || vanished_ || result.policies_changed) {
    return start_next_pass(now);
  }
  if (result.untainted) {
    first_action_pass_.reset();
    Effects effects = await_taint(result.retry_after.value_or(Duration::zero()));
    note_failure(result, now, effects);
    return effects;
  }
  untainted_ = 0;
  left_unfit_ = result.unfit;
  Effects effects;
  std::optional<Duration> look_again = result.look_again;
  const auto look_within = [&look_again](Duration delay) {
    look_again = std::min(look_again.value_or(delay), delay);
  };
  if (result.unreadable) {
    effects.emplace_back(Hold{Reason::Unreadable});
    look_within(unreadable_pause());
  } else {
    unreadable_ = 0;
  }
  if (left_unfit_ && overtaken_ && seen_ == Readiness::Unknown) {
    look_within(rules_.taint_poll);  // it fell silent while we were judging
  }
  std::optional<Moment> next = next_retry(result, now);
  const bool retries_soon = next && retry_pause_ == Duration::zero();
  if (look_again) {
    const Moment look = now + *look_again;
    next = next ? std::min(*next, look) : look;
  }
  if (result.look_at) {
    next = std::min(next.value_or(*result.look_at), *result.look_at);
  }
  if (const auto look = next_look(result, next, now)) {
    next = look;
  }
  if (!retries_soon) {
    first_action_pass_.reset();  // the next pass has its own window, or none
  }
  next_pass_ = next;
  note_failure(result, next, effects);
  note_waiting(result, next, effects);
  const auto look = last_look(now);
  const Effects then = next          ? rest(*next - now)
                       : left_unfit_ ? hold(Reason::SignalUnfit, silence_at_ - now)
                       : look        ? rest(*look)
                                     : settle(result, now);
  effects.insert(effects.end(), then.begin(), then.end());
  return effects;
}

namespace {

bool has_failed(const PassResult& result) {
  return result.failed > 0 || !result.held_by_failure.empty();
}

}  // namespace

std::optional<Moment> IncidentMachine::next_retry(const PassResult& result, Moment now) {
  const Moment asked = now + result.retry_after.value_or(Duration::zero());
  const Moment retry = std::max(pass_started_ + rules_.retry_interval, asked);
  const bool inside = retry < *first_action_pass_ + rules_.retry_window;
  if (!has_failed(result)) {
    retry_pause_ = {};
    return result.failed_observing > 0 && inside ? std::optional(retry) : std::nullopt;
  }
  if (inside && retry_pause_ == Duration::zero()) {
    return retry;
  }
  const Duration doubled = std::max(retry_pause_, rules_.retry_interval) * 2;
  retry_pause_ = std::max(rules_.retry_interval, std::min(doubled, rules_.retry_pause_max));
  return std::max(pass_started_ + retry_pause_, asked);
}

void IncidentMachine::note_failure(const PassResult& result, std::optional<Moment> next,
                                   Effects& effects) {
  if (has_failed(result) || result.untainted) {
    failing_since_ = failing_since_.value_or(pass_started_);
  } else if (!result.unreadable) {  // that pass has seen too little to say
    failing_since_.reset();
    told_failing_ = false;
  }
  if (failing_since_ && next && *next >= *failing_since_ + rules_.tell_failing_after) {
    told_failing_ = true;
    effects.emplace_back(Hold{Reason::StillFailing});
  }
}

void IncidentMachine::note_waiting(const PassResult& result, std::optional<Moment> next,
                                   Effects& effects) {
  if (result.waits) {
    waiting_since_ = waiting_since_.value_or(pass_started_);
  } else if (!result.unreadable) {  // that pass has seen too little to say
    waiting_since_.reset();
  }
  // Of what fails beside that is told; a wait that failing policies cause is theirs.
  if (result.waits && next && *next >= *waiting_since_ + rules_.tell_waiting_after) {
    effects.emplace_back(Hold{Reason::StillWaiting});
  }
}

std::optional<Moment> IncidentMachine::next_look(const PassResult& result,
                                                 const std::optional<Moment>& next, Moment now) {
  if (std::exchange(deleted_, false)) {
    looks_left_ = rules_.looks.size();
    looked_ = true;
  }
  looking_ = false;
  // Where something failed the lists are read again soon enough, or were for long enough.
  if (looks_left_ == 0 || result.failed > 0 || result.unreadable ||
      !result.held_by_failure.empty()) {
    return std::nullopt;
  }
  const Moment look = now + rules_.looks[rules_.looks.size() - looks_left_];
  if (next && *next <= look) {
    return std::nullopt;
  }
  --looks_left_;
  looking_ = true;
  return look;
}

// Nothing can be bound to a node that is not there.
std::optional<Duration> IncidentMachine::last_look(Moment now) const {
  const Moment due = *acts_since_ + rules_.looks.back();
  return looked_ || outlives_ || seen_ == Readiness::Gone || now >= due ? std::nullopt
                                                                        : std::optional(due - now);
}

IncidentMachine::Effects IncidentMachine::policies_changed(const HoldDowns& hold_downs,
                                                           Moment now) {
  if (state_ == State::Closed) {
    return {};
  }
  rules_.hold_downs = hold_downs;
  if (!hold_downs.silent && !hold_downs.living) {
    return close(Reason::NoPolicy);
  }
  if (seen_ == Readiness::Gone && !hold_downs.deleted_silent) {
    return close(Reason::NodeGone);
  }
  if (state_ == State::Confirming || state_ == State::Operating) {
    outdated_ = true;
    return {};
  }
  left_unfit_ = false;
  // The live reading will tell whether the taint is there.
  const auto due = due_by_belief();
  return due && now >= *due ? start_next_pass(now) : begin(/*tainted=*/false, now);
}

IncidentMachine::Effects IncidentMachine::braked(Reason reason) {
  if (state_ != State::Confirming && state_ != State::Operating) {
    return {};
  }
  first_action_pass_.reset();
  Effects effects = hold(reason, std::nullopt);
  braked_ = true;
  return effects;
}

IncidentMachine::Effects IncidentMachine::brake_released(Moment now) {
  return is_braked() ? begin(/*tainted=*/true, now) : Effects{};  // the live reading will tell
}

bool IncidentMachine::in_progress() const {
  return state_ == State::Confirming || state_ == State::Operating ||
         (state_ == State::Resting && first_action_pass_ && unreadable_ == 0);
}

IncidentMachine::Effects IncidentMachine::stop(Reason reason) {
  return state_ == State::Closed ? Effects{} : close(reason);
}

std::optional<Moment> IncidentMachine::due_by(const Reading& reading) const {
  const HoldDowns& after = rules_.hold_downs;
  const bool deleted = reading.readiness == Readiness::Gone;
  if (reading.kubelet_lease == KubeletLease::Dead) {
    return due_after(deleted ? after.deleted_silent : after.silent);
  }
  if (deleted) {
    return due_after(after.deleted_living);
  }
  return reading.readiness == Readiness::Unknown ? std::nullopt
                                                 : due_after(rules_.hold_downs.living);
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

Duration IncidentMachine::unreadable_pause() {
  const Duration doubled = rules_.retry_interval * (1 << std::min(unreadable_, 8U));
  ++unreadable_;
  return std::min(doubled, rules_.unreadable_interval_max);
}

IncidentMachine::Effects IncidentMachine::hold(Reason reason, std::optional<Duration> delay) {
  state_ = State::Holding;
  braked_ = false;
  // What keeps it now is something else; but the brake and our doubt pass, and then it fails on.
  if (reason != Reason::AwaitingTaint && !is_braking(reason)) {
    retry_pause_ = {};
    failing_since_.reset();
    waiting_since_.reset();
    told_failing_ = false;
  }
  Effects effects = {CancelTimer{}, CancelPass{}, Hold{reason}};
  if (delay) {
    effects.emplace_back(SetTimer{std::max(*delay, Duration::zero())});
  }
  return effects;
}

IncidentMachine::Effects IncidentMachine::await_silence(const Reading& reading, Moment now) {
  const bool unknown = reading.readiness == Readiness::Unknown;
  if (unknown && reading.kubelet_lease == KubeletLease::Unread) {
    return await_readable(Reason::LeaseUnreadable, now);
  }
  unreadable_ = 0;
  if (overtaken_) {
    return rest(rules_.taint_poll);
  }
  return hold(unknown ? Reason::LeaseAlive : Reason::SignalUnfit, silence_at_ - now);
}

IncidentMachine::Effects IncidentMachine::await_readable(Reason reason, Moment now) {
  const Duration pause = unreadable_pause();
  if (state_ == State::Confirming && first_action_pass_) {
    *first_action_pass_ += now + pause - pass_started_;  // the window stands still meanwhile
  }
  Effects effects = rest(pause);
  effects.insert(effects.begin(), Hold{reason});
  return effects;
}

bool IncidentMachine::may_quarantine() const {
  return rules_.quarantine == Quarantine::Always ||
         (rules_.quarantine == Quarantine::Missing && untainted_ > 0);
}

IncidentMachine::Effects IncidentMachine::await_taint(Duration at_least) {
  const Duration doubled = rules_.taint_poll * (1 << std::min(untainted_, 8U));
  ++untainted_;
  return hold(Reason::AwaitingTaint,
              std::max(at_least, std::min(doubled, rules_.unreadable_interval_max)));
}

IncidentMachine::Effects IncidentMachine::start_pass(Moment now) {
  state_ = State::Confirming;
  pass_started_ = now;
  overtaken_ = false;
  outdated_ = false;
  vanished_ = false;
  left_unfit_ = false;
  braked_ = false;
  ++passes_;
  return {CancelTimer{}, StartPass{}};
}

IncidentMachine::Effects IncidentMachine::start_next_pass(Moment now) {
  looking_ = false;
  first_action_pass_.reset();
  retry_pause_ = {};
  Effects effects = start_pass(now);
  effects.insert(effects.begin(), CancelPass{});
  return effects;
}

IncidentMachine::Effects IncidentMachine::rest(Duration delay) {
  state_ = State::Resting;
  return {CancelPass{}, SetTimer{std::max(delay, Duration::zero())}};
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
  state_ = State::Verifying;
  return {CancelPass{}, SetTimer{until - now}};
}

IncidentMachine::Effects IncidentMachine::close(Reason reason) {
  state_ = State::Closed;
  return {CancelTimer{}, CancelPass{}, Close{reason}};
}

}  // namespace moonfence::fence
