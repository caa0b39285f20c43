#include "fence/incident/incident_driver.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "fence/act/volume_releaser.h"
#include "fence/incident/restore.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using cluster::Look;
using cluster::NodeView;

namespace {

bool is_left_to_others(Reason reason) {
  return reason == Reason::SteppedDown || reason == Reason::Stopping ||
         reason == Reason::StoreWentBack;
}

// How much of it was done when the node came back; "" when nothing was to be done.
std::string how_far(const IncidentRecord& record) {
  constexpr std::size_t kNamed = 8;
  std::size_t pods = 0;
  std::size_t left = 0;
  std::string names;
  for (const IncidentRecord::Step& step : record.steps) {
    if (step.kind != IncidentRecord::Step::Kind::DeletePod) {
      continue;
    }
    ++pods;
    if (!step.settled() && ++left <= kNamed) {
      names += (names.empty() ? "; not: " : ", ") + step.pod.text();
      names += step.sent && !step.ended ? " (under way)" : "";
    }
  }
  if (pods == 0) {
    return {};
  }
  return std::to_string(pods - left) + " of " + std::to_string(pods) + " pods done" + names +
         (left > kNamed ? " and " + std::to_string(left - kNamed) + " more" : "");
}

}  // namespace

IncidentDriver::IncidentDriver(Keeper& keeper, IncidentContext& surroundings, std::uint64_t order,
                               const NodeView& node, const Downtime& downtime,
                               std::shared_ptr<RecordLedger> ledger)
    : keeper_(keeper),
      around_(surroundings),
      id_(ledger->record().id),
      order_(order),
      downtime_(downtime),
      machine_(node.uid, keeper.rules_for(downtime), downtime.since),
      authority_(std::make_shared<Authority>()),
      opened_(around_.access.loop.now()),
      storage_poll_(around_, node.name,
                    [this] { perform(machine_.storage_moved(around_.access.loop.now())); }),
      awaits_replacements_(keeper.rules_for(downtime).replacement_wait > Duration::zero()),
      replacement_watch_(around_, id_, authority_, memory_.replacements,
                         [this] { perform(machine_.replacements_ready()); }),
      pod_watch_(
          around_.access.pod_watches, node.name,
          [this](const Uid& pod) { return memory_.handled.contains(pod); },
          [this] { perform(machine_.pods_changed(around_.access.loop.now())); }) {
  authority_->node = node.name;
  authority_->node_uid = node.uid;
  authority_->active = &around_.in_force.active;
  authority_->leadership = &around_.in_force.leadership;
  authority_->fencing_drivers = &around_.in_force.fencing_drivers;
  authority_->release = &around_.in_force.release;
  authority_->zone = node.zone;
  authority_->brake = &around_.in_force.brake;
  authority_->doubt = &around_.in_force.doubt;
  authority_->protections = &around_.in_force.protections;
  authority_->quarantine = around_.in_force.quarantine;
  authority_->kernels = around_.in_force.kernels;
  authority_->powers = around_.in_force.powers;
  authority_->source =
      around_.access.source == nullptr ? std::string() : around_.access.source->key();
  restore(memory_, ledger->record(), opened_);
  const auto silence = silent_ago(ledger->record(), around_.output.journal.now());
  memory_.was_silent = silence.has_value();
  if (silence) {
    read_silent_ = opened_ - *silence;
  }
  memory_.boot_id = node.boot_id;
  memory_.word = {.changed = node.since, .heard = downtime.since};
  node_ = node;
  authority_->ledger = std::move(ledger);
  hold(node.hold);
}

// The next leader may find no Node any more that says it.
void IncidentDriver::hold(const std::optional<std::string>& why) {
  memory_.hold = why;
  if (authority_->ledger != nullptr) {
    authority_->ledger->held(why.value_or(""));
  }
}

void IncidentDriver::take_up(LeftBehind left) {
  taken_up_ = true;
  memory_.was_silent = left.was_silent;
  memory_.last_seen = std::move(left.last_seen);
  machine_.outlive_the_node();
}

std::optional<IncidentDriver::LeftBehind> IncidentDriver::left_behind() const {
  const bool gone = closed_by_ == Reason::NodeGone;
  // That the new one is the same machine after all is found out once.
  const bool replaced = closed_by_ == Reason::NodeReplaced && !taken_up_;
  const bool is_over = node_.readiness != cluster::Readiness::Gone && !memory_.was_silent;
  if (around_.access.source != nullptr || is_over || (!gone && !replaced)) {
    return std::nullopt;
  }
  LeftBehind left = {.node = node_,
                     .downtime = downtime_,
                     .was_silent = memory_.was_silent,
                     .last_seen = memory_.last_seen,
                     .at = memory_.last_seen ? around_.access.loop.now()
                                             : read_silent_.value_or(around_.access.loop.now())};
  left.node.readiness = left.was_silent ? cluster::Readiness::Unknown : cluster::Readiness::Gone;
  left.node.boot_id = memory_.boot_id;
  left.node.hold = memory_.hold;
  left.node.keeps_replacements_off = true;  // nothing can be bound to it any more
  return left;
}

bool IncidentDriver::is_midway() const {
  const auto& steps = authority_->ledger->record().steps;
  const auto any = [&steps](const auto& is_so) {
    return std::any_of(steps.begin(), steps.end(), is_so);
  };
  const auto may_be_done = [](const IncidentRecord::Step& step) {
    return step.sent && (!step.ended || !step.outcome || step.settled() ||
                         step.outcome == Reason::MarkedOnly || step.outcome == Reason::OutcomeLost);
  };
  const bool detaches =
      std::any_of(memory_.detachments.begin(), memory_.detachments.end(),
                  [](const auto& each) { return !each.second.refused.has_value(); });
  return any(may_be_done) &&
         (detaches || !memory_.releases.empty() || any([&may_be_done](const auto& step) {
            return step.awaits_release() || (may_be_done(step) && !step.settled());
          }));
}

void IncidentDriver::begin(const NodeView& node, Reason why) {
  opening_ = why;
  perform(machine_.open(node, around_.access.loop.now()));
  record_opening();
}

// After the first requests, which need not wait for the disk, and before whatever else there is to
// tell.
void IncidentDriver::record_opening() {
  if (const auto why = std::exchange(opening_, std::nullopt)) {
    const auto sign = authority_->ledger->record().last_sign;
    record(Record::Kind::IncidentOpened, *why,
           sign ? "its machine was last heard at " + format_rfc3339(*sign) : "");
  }
}

void IncidentDriver::node_seen(const NodeView& node, Look why) {
  if ((why == Look::Fell || why == Look::Expired) && !downtime_.fell) {
    downtime_.fell = true;  // more bindings concern us from now on; see remember()
    entitle();
  }
  if (node.uid == authority_->node_uid) {
    node_ = node;
    hold(node.hold);
    // A kubelet that speaks again begins anew, whatever it was silent about before.
    const bool speaks_anew =
        node.since != memory_.word.changed && node.readiness != cluster::Readiness::Unknown;
    memory_.word = {
        .changed = node.since,
        .heard = why == Look::Fell || speaks_anew ? around_.access.loop.now() : memory_.word.heard};
  }
  perform(machine_.node_seen(node, around_.access.loop.now()));
}

void IncidentDriver::policies_changed() {
  memory_.enforcing.breaker.reset();
  memory_.observing.breaker.reset();
  memory_.mentioned.clear();
  memory_.told.clear();
  memory_.retired_for.reset();  // whoever wishes it now is asked
  entitle();
}

void IncidentDriver::evidence_found() {
  perform(machine_.storage_moved(around_.access.loop.now()));
}

// What was observed until now proves nothing.
void IncidentDriver::restart_evidence() {
  downtime_.since = around_.access.loop.now();
  memory_.kubelet_lease = {};
  machine_.evidence_restarts(around_.access.loop.now());
}

void IncidentDriver::let_go() {
  if (const auto reason = refused_by_brake()) {
    note_hold(*reason);  // it may be another one by now
    return;
  }
  perform(machine_.brake_released(around_.access.loop.now()));
}

void IncidentDriver::reading_arrived(const std::optional<Reading>& reading) {
  perform(machine_.confirmed(reading, around_.access.loop.now()));
}

void IncidentDriver::pass_ended(const PassResult& result) {
  if (!result.unreadable && !result.untainted) {
    held_.reset();
  }
  failing_ = result.held_by_failure;
  obstacle_ = result.obstacle;
  failed_ = result.failed;
  waiting_ = result.waiting;
  waits_ = result.waits;
  stand(result);
  if (waits_) {
    pod_watch_.read(std::move(memory_.pods_read));
  }
  perform(machine_.pass_ended(result, around_.access.loop.now()));
}

void IncidentDriver::perform(const IncidentMachine::Effects& effects) {
  carry_out(effects);
  if (!machine_.in_progress()) {
    place_.leave();
  }
  if (machine_.state() == IncidentMachine::State::Resting) {
    storage_poll_.keep(waits_for_storage(memory_));
  } else {
    storage_poll_.rest();
  }
  if (awaits_replacements_ && machine_.state() != IncidentMachine::State::Closed) {
    replacement_watch_.keep();
  } else {
    replacement_watch_.rest();
  }
  watch_pods();
}

void IncidentDriver::watch_pods() {
  const bool between = machine_.state() != IncidentMachine::State::Holding &&
                       machine_.state() != IncidentMachine::State::Closed;
  if (!between || !waits_) {
    pod_watch_.close();
  } else if (machine_.may_hear()) {
    pod_watch_.listen();
  } else {
    pod_watch_.hush();
  }
}

// The last effect may end this object, at the end of the turn.
void IncidentDriver::carry_out(const IncidentMachine::Effects& effects) {
  for (const IncidentMachine::Effect& effect : effects) {
    const bool closing = std::holds_alternative<IncidentMachine::Close>(effect);
    std::visit(Overloaded{
                   [this](const IncidentMachine::SetTimer& set) { set_timer(set.delay); },
                   [this](const IncidentMachine::CancelTimer&) {
                     timer_.cancel();
                     timer_due_.reset();
                   },
                   [this](const IncidentMachine::StartPass&) { start_pass(); },
                   [this](const IncidentMachine::PlanAhead&) { plan_ahead(); },
                   [this](const IncidentMachine::Act&) { act(); },
                   [this](const IncidentMachine::CancelPass&) { cancel_pass(); },
                   [this](const IncidentMachine::Hold& hold) { note_hold(hold.reason); },
                   [this](const IncidentMachine::Close& close) { this->close(close.reason); },
               },
               effect);
    if (closing) {
      return;
    }
  }
}

void IncidentDriver::entitle() {
  perform(machine_.policies_changed(keeper_.rules_for(downtime_).hold_downs,
                                    around_.access.loop.now()));
}

void IncidentDriver::set_timer(Duration delay) {
  timer_due_ = around_.access.loop.now() + delay;
  timer_ = around_.access.loop.after(
      delay, [this] { perform(machine_.timer_fired(around_.access.loop.now())); });
}

Brake::Candidate IncidentDriver::candidate() const {
  return {.node = authority_->node, .zone = authority_->zone};
}
std::optional<Reason> IncidentDriver::refused_by_brake() const {
  if (around_.in_force.doubt.cause(around_.access.loop.now())) {
    return Reason::DoubtsItself;
  }
  return around_.in_force.brake.refuse(candidate(), around_.access.loop.now());
}

void IncidentDriver::wait_for_brake(Reason reason) {
  perform(machine_.braked(reason, around_.access.loop.now()));
  keeper_.let_go_soon();  // it finds out what we wait for
}

void IncidentDriver::start_pass() {
  if (const auto reason = refused_by_brake()) {
    wait_for_brake(*reason);
    return;
  }
  place_ = around_.in_force.brake.begin(candidate());
  pass_ = std::make_unique<Pass>(around_, context(), authority_, memory_, *this);
  if (preplanning_ == nullptr) {
    pass_->start();
    return;
  }
  pass_->start(preplanning_->take(context()));
  // Its destruction takes time that the requests need not wait for.
  around_.access.loop.defer(
      [dead = std::shared_ptr<PlanAhead>(std::move(preplanning_))] { (void)dead; });
}

PassContext IncidentDriver::context() const {
  return {.set = around_.in_force.active.current(),
          .downtime = downtime_,
          .incident = id_,
          .attempt = machine_.passes(),
          .stretch = machine_.stretch(),
          .retry = machine_.retry(),
          .unread = machine_.unread(),
          .unknown = machine_.believes_unknown()};
}

void IncidentDriver::plan_ahead() {
  // A storage system is asked about a node when somebody may act on what it says.
  if (around_.preplannings != nullptr && around_.preplannings->has_room() &&
      around_.access.source == nullptr && !refused_by_brake()) {
    preplanning_ = std::make_unique<PlanAhead>(around_, context(), *authority_, memory_);
  }
}

void IncidentDriver::act() {
  if (const auto reason = refused_by_brake()) {
    wait_for_brake(*reason);
    return;
  }
  // That one is over when a whole pass could be read.
  const bool unreadable = held_ == Reason::Unreadable || held_ == Reason::ServerSlow;
  const bool untainted =
      held_ == Reason::AwaitingTaint && !authority_->reading.keeps_replacements_off;
  if (!unreadable && !untainted) {
    held_.reset();  // what kept it is over; the next time is news
  }
  if (incident_status_.state == IncidentStatus::State::Held && waiting_.empty()) {
    incident_status_ = {};
  }
  pass_->act();
}

void IncidentDriver::cancel_pass() {
  preplanning_.reset();
  // We may be inside one of the pass's own callbacks: it dies at the end of the turn.
  if (pass_) {
    pass_->retire();
    around_.access.loop.defer([dead = std::shared_ptr<Pass>(std::move(pass_))] { (void)dead; });
  }
}

void IncidentDriver::note_hold(Reason reason) {
  if (reason == Reason::StillFailing) {
    // The server's words differ each time and are no news.
    tell_lasting(reason, obstacle_.substr(0, obstacle_.find(';')) + names_of_failing(),
                 words_of_failing());
    return;
  }
  if (reason == Reason::StillWaiting) {
    tell_lasting(reason, waiting_, waiting_);
    return;
  }
  // The brake's words change with what other nodes do; each of them is told once, and so is each
  // cause of a doubt.
  if (is_braking(reason)) {
    incident_status_ = {
        .state = IncidentStatus::State::Held, .reason = reason, .text = words_of_brake(reason)};
    const auto cause = around_.in_force.doubt.cause(around_.access.loop.now());
    const std::string about(cause && reason == Reason::DoubtsItself ? to_string(*cause) : "");
    if (braked_.emplace(reason, about).second) {
      record(Record::Kind::IncidentHeld, reason, incident_status_.text);
    }
    return;
  }
  std::string text;
  if (reason == Reason::Unreadable || reason == Reason::LeaseUnreadable) {
    text = around_.in_force.leadership.slowness();
    reason = text.empty() ? reason : Reason::ServerSlow;
  }
  incident_status_ = {.state = IncidentStatus::State::Held, .reason = reason, .text = text};
  // The same wait, repeated, is one record: once per run of failures.
  if (held_ != reason) {
    held_ = reason;
    record(Record::Kind::IncidentHeld, reason, text);
  }
}

std::string IncidentDriver::words_of_brake(Reason reason) const {
  if (reason == Reason::TooManyDown) {
    return around_.in_force.brake.newly_down().text() +
           (around_.in_force.brake.too_many_down()
                ? ""
                : "; others are as silent by their Leases, or it was too many until lately");
  }
  if (reason != Reason::DoubtsItself) {
    return {};
  }
  const auto cause = around_.in_force.doubt.cause(around_.access.loop.now());
  const std::string slow = around_.in_force.leadership.slowness();
  return std::string(cause ? to_string(*cause) : "") + (slow.empty() ? "" : "; " + slow);
}

// What fails, and where that is more than one thing how many.
std::string IncidentDriver::words_of_failing() const {
  const std::string names = names_of_failing();
  std::string text = obstacle_;
  if (failed_ > 1) {
    text += " (and " + std::to_string(failed_ - 1) + " more)";
  }
  if (const std::string slow = around_.in_force.leadership.slowness(); !slow.empty()) {
    text += text.empty() ? slow : "; " + slow;
  }
  return text + (text.empty() || names.empty() ? names : "; " + names);
}

// One that could not read says itself why, and so does one that the brake stopped.
void IncidentDriver::stand(const PassResult& result) {
  using State = IncidentStatus::State;
  if (result.unreadable || result.braked) {
    return;
  }
  incident_status_ = {};
  if (result.failed > 0 || !failing_.empty()) {
    incident_status_ = {.state = State::Fails,
                        .reason = result.failed_for.value_or(Reason::PolicyFailed),
                        .text = words_of_failing()};
  } else if (result.waits) {
    const Reason reason = result.waits_for.value_or(Reason::PolicyWaits);
    const bool waits = reason == Reason::PolicyWaits || reason == Reason::HoldingDown;
    incident_status_ = {.state = reason == Reason::PolicyFailed ? State::Fails
                                 : waits                        ? State::Waits
                                                                : State::Held,
                        .reason = reason,
                        .text = waiting_};
  } else if (!result.left_behind.empty()) {
    incident_status_ = {
        .state = State::Held, .reason = Reason::VolumeLeft, .text = result.left_behind};
  }
}

IncidentStatus IncidentDriver::incident_status() const {
  const IncidentRecord& record = authority_->ledger->record();
  IncidentStatus incident_status = incident_status_;
  incident_status.incident = id_;
  incident_status.node = authority_->node;
  incident_status.opened = record.opened;
  incident_status.opened_for = record.opened_for;
  incident_status.next = timer_due_;
  if (is_verifying()) {
    incident_status.state = IncidentStatus::State::Verifying;
    incident_status.reason.reset();
    incident_status.text = memory_.replacements.summary();
  } else if (is_braked()) {
    incident_status.next = around_.in_force.brake.next_release(around_.access.loop.now());
  }
  return incident_status;
}

void IncidentDriver::tell_lasting(Reason reason, const std::string& about, std::string text) {
  const Moment now = around_.access.loop.now();
  const auto told = told_lasting_.find(reason);
  if (told != told_lasting_.end() && now - told->second.at < kTellAgain &&
      told->second.about == about) {
    return;
  }
  told_lasting_[reason] = {.at = now, .about = about};
  if (const auto next = machine_.next_pass()) {
    text += "; looked at again in " +
            format_duration(std::chrono::ceil<std::chrono::seconds>(*next - now));
  }
  record(Record::Kind::IncidentHeld, reason, text);
}

void IncidentDriver::close(Reason reason) {
  authority_->incident_open = false;
  if (reason == Reason::NodeReady) {
    report_return(around_, *authority_, memory_);
  }
  if (reason == Reason::NodeReady && around_.access.source != nullptr) {
    reason = Reason::SourceHealthy;
  }
  // What we must leave the next leader finishes.
  if (!is_left_to_others(reason)) {
    authority_->ledger->close(reason);
    around_.output.journal.finish(authority_->ledger);
  }
  const bool came_back = reason == Reason::NodeReady || reason == Reason::SourceHealthy;
  record(Record::Kind::IncidentClosed, reason,
         came_back                      ? how_far(authority_->ledger->record())
         : reason == Reason::Unreplaced ? memory_.replacements.summary()
                                        : std::string());
  closed_by_ = reason;
  keeper_.forget(authority_->node);
}

std::string IncidentDriver::names_of_failing() const {
  std::string names;
  for (const std::string& name : failing_) {
    names += (names.empty() ? "policies that fail: " : ", ") + name;
  }
  return names;
}

void IncidentDriver::record(Record::Kind kind, Reason reason, const std::string& text) {
  record_opening();
  const bool closes = kind == Record::Kind::IncidentClosed;
  const Duration age = closes ? around_.access.loop.now() - opened_ : Duration::zero();
  const bool goes_on =
      closes && is_left_to_others(reason) && around_.output.journal.may_stand(*authority_->ledger);
  (void)around_.output.trail.write({.kind = kind,
                                    .reason = reason,
                                    .incident = id_,
                                    .node = authority_->node,
                                    .node_uid = authority_->node_uid,
                                    .pod = std::nullopt,
                                    .pod_uid = {},
                                    .policy = {},
                                    .policy_digest = {},
                                    .action = {},
                                    .text = text,
                                    .attempt = machine_.passes(),
                                    .server_audit_id = {},
                                    .took = age,
                                    .goes_on = goes_on});
}

}  // namespace moonfence::fence
