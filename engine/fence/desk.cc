#include "fence/desk.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "fence/releasing.h"
#include "fence/steps.h"
#include "fence/vigil.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using cluster::Look;
using cluster::NodeView;

namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

Reason reason_to_open(const NodeView& node, Look why) {
  const bool newly = why == Look::Fell || why == Look::Swept;
  if (node.readiness == cluster::Readiness::Failed && newly) {
    return Reason::SourceFailed;
  }
  if (why == Look::Swept) {
    return Reason::StartupSweep;
  }
  if (why == Look::Expired) {
    return Reason::EntryExpired;
  }
  if (why == Look::PoliciesChanged) {
    return Reason::PoliciesChanged;
  }
  if (why == Look::TookOver) {
    return Reason::TookOver;
  }
  switch (node.readiness) {
    case cluster::Readiness::False:
      return Reason::NodeNotReady;
    case cluster::Readiness::Unknown:
      return Reason::NodeUnknown;
    case cluster::Readiness::Missing:
    case cluster::Readiness::True:
    case cluster::Readiness::Gone:
      return Reason::ReadyMissing;
    case cluster::Readiness::Failed:
      return Reason::SourceFailed;
  }
  return Reason::NodeUnknown;
}

}  // namespace

// An open incident with everything it has running.
class IncidentDesk::Open final : public Operation::Owner {
 public:
  Open(IncidentDesk& desk, const NodeView& node, const Downtime& downtime,
       std::shared_ptr<Page> page)
      : desk_(desk),
        around_(desk.around_),
        id_(page->record().id),
        order_(desk.opened_++),
        downtime_(downtime),
        machine_(node.uid, desk.rules_for(downtime), downtime.since),
        authority_(std::make_shared<Authority>()),
        opened_(around_.loop.now()),
        vigil_(around_, node.name,
               [this] { perform(machine_.storage_moved(around_.loop.now())); }) {
    authority_->node = node.name;
    authority_->node_uid = node.uid;
    authority_->active = &around_.active;
    authority_->leadership = &around_.leadership;
    authority_->fencing_drivers = &around_.fencing_drivers;
    authority_->release = &around_.release;
    authority_->zone = node.zone;
    authority_->brake = &around_.brake;
    authority_->doubt = &around_.doubt;
    authority_->protections = &around_.protections;
    authority_->quarantine = around_.quarantine;
    authority_->source = around_.source == nullptr ? std::string() : around_.source->key();
    restore(memory_, page->record());
    authority_->page = std::move(page);
  }
  ~Open() override { authority_->incident_open = false; }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  void begin(const NodeView& node, Reason why) {
    record(Record::Kind::IncidentOpened, why);
    perform(machine_.open(node, around_.loop.now()));
  }

  void node_seen(const NodeView& node, Look why) {
    if ((why == Look::Fell || why == Look::Expired) && !downtime_.fell) {
      downtime_.fell = true;  // more bindings concern us from now on; see remember()
      entitle();
    }
    perform(machine_.node_seen(node, around_.loop.now()));
  }

  void policies_changed() {
    memory_.enforcing.breaker.reset();
    memory_.observing.breaker.reset();
    memory_.mentioned.clear();
    memory_.told.clear();
    entitle();
  }

  // What was observed until now proves nothing.
  void restart_evidence() {
    downtime_.since = around_.loop.now();
    memory_.pulse = {};
    machine_.evidence_restarts(around_.loop.now());
  }

  [[nodiscard]] bool is_braked() const { return machine_.is_braked(); }
  [[nodiscard]] std::uint64_t order() const { return order_; }
  void let_go() {
    if (const auto reason = refused_by_brake()) {
      note_hold(*reason);  // it may be another one by now
      return;
    }
    perform(machine_.brake_released(around_.loop.now()));
  }

  void stop(Reason reason) { perform(machine_.stop(reason)); }

  void reading_arrived(const std::optional<Reading>& reading) override {
    perform(machine_.confirmed(reading, around_.loop.now()));
  }

  void pass_ended(const PassResult& result) override {
    if (!result.unreadable && !result.untainted) {
      held_.reset();
    }
    failing_ = result.held_by_failure;
    perform(machine_.pass_ended(result, around_.loop.now()));
  }

 private:
  void perform(const Incident::Effects& effects) {
    carry_out(effects);
    if (!machine_.in_progress()) {
      place_.leave();
    }
    if (machine_.state() == Incident::State::Resting) {
      vigil_.keep(waits_for_storage(memory_));
    } else {
      vigil_.rest();
    }
  }

  // The last effect may end this object, at the end of the turn.
  void carry_out(const Incident::Effects& effects) {
    for (const Incident::Effect& effect : effects) {
      const bool closing = std::holds_alternative<Incident::Close>(effect);
      std::visit(Overloaded{
                     [this](const Incident::SetTimer& set) { set_timer(set.delay); },
                     [this](const Incident::CancelTimer&) { timer_.cancel(); },
                     [this](const Incident::StartPass&) { start_pass(); },
                     [this](const Incident::Act&) { act(); },
                     [this](const Incident::CancelPass&) { cancel_pass(); },
                     [this](const Incident::Hold& hold) { note_hold(hold.reason); },
                     [this](const Incident::Close& close) { this->close(close.reason); },
                 },
                 effect);
      if (closing) {
        return;
      }
    }
  }

  void entitle() {
    perform(machine_.policies_changed(desk_.rules_for(downtime_).hold_downs, around_.loop.now()));
  }

  void set_timer(Duration delay) {
    timer_ =
        around_.loop.after(delay, [this] { perform(machine_.timer_fired(around_.loop.now())); });
  }

  [[nodiscard]] Brake::Candidate candidate() const {
    return {.node = authority_->node, .zone = authority_->zone};
  }
  [[nodiscard]] std::optional<Reason> refused_by_brake() const {
    if (around_.doubt.cause(around_.loop.now())) {
      return Reason::DoubtsItself;
    }
    return around_.brake.refuse(candidate(), around_.loop.now());
  }

  void wait_for_brake(Reason reason) {
    perform(machine_.braked(reason));
    desk_.let_go_soon();  // it finds out what we wait for
  }

  void start_pass() {
    if (const auto reason = refused_by_brake()) {
      wait_for_brake(*reason);
      return;
    }
    place_ = around_.brake.begin(candidate());
    operation_ = std::make_unique<Operation>(around_,
                                             Occasion{.set = around_.active.current(),
                                                      .downtime = downtime_,
                                                      .incident = id_,
                                                      .attempt = machine_.passes(),
                                                      .unknown = machine_.believes_unknown()},
                                             authority_, memory_, *this);
    operation_->start();
  }

  void act() {
    if (const auto reason = refused_by_brake()) {
      wait_for_brake(*reason);
      return;
    }
    // That one is over when a whole pass could be read.
    const bool unreadable = held_ == Reason::Unreadable;
    const bool untainted =
        held_ == Reason::AwaitingTaint && !authority_->reading.keeps_replacements_off;
    if (!unreadable && !untainted) {
      held_.reset();  // what kept it is over; the next time is news
    }
    operation_->act();
  }

  void cancel_pass() {
    // We may be inside one of the operation's own callbacks: it dies at the end of the turn.
    if (operation_) {
      operation_->retire();
      around_.loop.defer(
          [dead = std::shared_ptr<Operation>(std::move(operation_))] { (void)dead; });
    }
  }

  void note_hold(Reason reason) {
    // The brake's words change with what other nodes do; each of them is told once, and so is each
    // cause of a doubt.
    if (is_braking(reason)) {
      const auto cause = around_.doubt.cause(around_.loop.now());
      const std::string text(cause && reason == Reason::DoubtsItself ? to_string(*cause) : "");
      if (braked_.emplace(reason, text).second) {
        record(Record::Kind::IncidentHeld, reason, text);
      }
      return;
    }
    // The same wait, repeated, is one record: once per run of failures.
    if (held_ != reason) {
      held_ = reason;
      record(Record::Kind::IncidentHeld, reason);
    }
  }

  void close(Reason reason) {
    authority_->incident_open = false;
    if (reason == Reason::NodeReady) {
      report_return(around_, *authority_, id_, memory_);
    }
    if (reason == Reason::NodeReady && around_.source != nullptr) {
      reason = Reason::SourceHealthy;
    }
    // What we must leave the next leader finishes.
    if (reason != Reason::SteppedDown && reason != Reason::Stopping) {
      authority_->page->close(reason);
      around_.journal.finish(authority_->page);
    }
    const bool gave_up = reason == Reason::PolicyFailing || reason == Reason::WindowEnded;
    record(Record::Kind::IncidentClosed, reason, gave_up ? names_of_failing() : std::string());
    desk_.forget(authority_->node);
  }

  [[nodiscard]] std::string names_of_failing() const {
    std::string names;
    for (const std::string& name : failing_) {
      names += (names.empty() ? "policies that fail: " : ", ") + name;
    }
    return names;
  }

  void record(Record::Kind kind, Reason reason, const std::string& text = {}) {
    const Duration age =
        kind == Record::Kind::IncidentClosed ? around_.loop.now() - opened_ : Duration::zero();
    (void)around_.trail.write({.kind = kind,
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
                               .took = age});
  }

  IncidentDesk& desk_;
  Surroundings& around_;
  const IncidentId id_;
  const std::uint64_t order_;  // among all incidents
  Downtime downtime_;
  Incident machine_;
  // Shared with the calls in flight, which may outlive us; see GuardedActions.
  std::shared_ptr<Authority> authority_;
  const Moment opened_;
  Memory memory_;
  Vigil vigil_;
  loop::Timer timer_;
  std::unique_ptr<Operation> operation_;
  Brake::Place place_;
  std::optional<Reason> held_;
  std::set<std::pair<Reason, std::string>> braked_;  // what was told, and the text beside it
  std::set<std::string> failing_;                    // policies for which the last pass held pods
};

IncidentDesk::IncidentDesk(Surroundings surroundings, IncidentRules rules,
                           std::function<IncidentId()> make_id)
    : around_(std::move(surroundings)), rules_(rules), make_id_(std::move(make_id)) {
  around_.brake.on_room(this, [this] { let_go_soon(); });
}

IncidentDesk::~IncidentDesk() {
  around_.brake.on_room(this, nullptr);
}

void IncidentDesk::look_at(const NodeView& node, Look why) {
  if (stopped_) {
    return;
  }
  const bool is_down = cluster::is_down(node.readiness);
  if (!is_down) {
    down_.erase(node.name);
  }
  const auto found = open_.find(node.name);
  if (found != open_.end()) {
    Open& incident = *found->second;
    if (is_down) {
      remember(node, why);
    }
    if (why != Look::PoliciesChanged) {  // no news of the node
      incident.node_seen(node, why);
    }
    return;
  }
  drop_inherited(node);
  if (!is_down) {
    held_back_.erase(node.name);
    return;
  }
  remember(node, why);
  if (leads_ && awaits_records_ && why != Look::Changed) {
    held_back_.try_emplace(node.name, node, why).first->second.first = node;
  } else if (leads_ && !awaits_records_) {
    consider(node, why);
  }
}

// What was taken over is of no use for a node that is not down any more, or another one.
void IncidentDesk::drop_inherited(const NodeView& node) {
  const bool is_down = cluster::is_down(node.readiness);
  const auto inherited = inherited_.find(node.name);
  if (inherited != inherited_.end() &&
      (!is_down || node.uid != inherited->second.record.node_uid)) {
    close_inherited(node.name, node.readiness == cluster::Readiness::Gone ? Reason::NodeGone
                               : is_down                                  ? Reason::NodeReplaced
                                                                          : Reason::NodeReady);
  }
}

// Whether an incident is to be opened.
void IncidentDesk::consider(const NodeView& node, Look why) {
  drop_inherited(node);
  Downtime downtime = down_.at(node.name).downtime;
  downtime.fell = downtime.fell && why != Look::PoliciesChanged;
  const auto inherited = inherited_.find(node.name);
  if (inherited != inherited_.end()) {
    downtime.fell = downtime.fell || inherited->second.record.fell;
  } else if (why == Look::Changed) {
    return;  // a change alone is no reason to look at a node that is dealt with
  }
  if (rules_for(downtime).hold_downs.silent) {
    open(node, why, downtime);
  }
}

const Downtime& IncidentDesk::remember(const NodeView& node, Look why) {
  const auto [entry, is_new] = down_.try_emplace(node.name);
  Down& down = entry->second;
  if (is_new || down.uid != node.uid || why == Look::Fell) {
    down = {.uid = node.uid,
            .downtime = {.since = around_.loop.now(),
                         .fell = why == Look::Fell || why == Look::Expired}};
  } else if (why == Look::Expired) {
    down.downtime.fell = true;  // it was down all the while: nobody waits for it to fall any more
  }
  return down.downtime;
}

void IncidentDesk::open(const NodeView& node, Look why, const Downtime& downtime) {
  const Reason reason = reason_to_open(node, why);
  auto made = std::make_unique<Open>(*this, node, downtime, page_for(node, reason, downtime));
  Open& incident = *open_.emplace(node.name, std::move(made)).first->second;
  incident.begin(node, reason);
}

std::shared_ptr<Page> IncidentDesk::page_for(const NodeView& node, Reason why,
                                             const Downtime& downtime) {
  if (const auto inherited = inherited_.extract(node.name)) {
    return around_.journal.resume(inherited.mapped());
  }
  IncidentRecord record;
  record.id = make_id_();
  record.node = node.name;
  record.node_uid = node.uid;
  record.zone = node.zone;
  record.source = around_.source == nullptr ? std::string() : around_.source->key();
  record.fell = downtime.fell;
  record.opened = around_.journal.now();
  record.opened_for = why;
  return around_.journal.begin(std::move(record));
}

IncidentRules IncidentDesk::rules_for(const Downtime& downtime) const {
  IncidentRules rules = rules_;
  rules.quarantine = around_.quarantine;
  rules.hold_downs = hold_downs(*around_.active.current(), downtime.fell,
                                around_.source == nullptr ? "" : around_.source->key());
  return rules;
}

void IncidentDesk::policies_changed() {
  std::vector<NodeName> names;  // an incident may close over it
  for (const auto& [name, incident] : open_) {
    names.push_back(name);
  }
  for (const NodeName& name : names) {
    open_.at(name)->policies_changed();
  }
}

void IncidentDesk::census_changed(const cluster::Census& census) {
  const Moment now = around_.loop.now();
  around_.brake.count(census, now);
  engaged_ = engaged_ || around_.brake.engaged(now);
  let_go_soon();
}

void IncidentDesk::let_go_soon() {
  if (!let_go_soon_.pending() && (engaged_ || !open_.empty())) {
    let_go_soon_ = around_.loop.in_next_turn([this] { let_go(); });
  }
}

void IncidentDesk::let_go() {
  const Moment now = around_.loop.now();
  engaged_ = engaged_ || around_.brake.engaged(now);  // a pass may have come to suspect a storm
  if (engaged_ && !around_.brake.engaged(now)) {
    engaged_ = false;
    restart_evidence();
  }
  std::map<std::uint64_t, NodeName> waiting;
  for (const auto& [name, incident] : open_) {
    if (incident->is_braked()) {
      waiting.emplace(incident->order(), name);
    }
  }
  for (const auto& [order, name] : waiting) {
    open_.at(name)->let_go();
  }
  let_go_later_.cancel();
  if (const auto next = around_.brake.next_release(now); next && (engaged_ || !waiting.empty())) {
    let_go_later_ = around_.loop.after(*next - now, [this] { let_go(); });
  }
}

// While too many nodes were down, or we doubted ourselves, nobody knew whether it was they: their
// hold-downs begin anew.
void IncidentDesk::restart_evidence() {
  for (auto& [name, down] : down_) {
    down.downtime.since = around_.loop.now();
  }
  for (const auto& [name, incident] : open_) {
    incident->restart_evidence();
  }
}

void IncidentDesk::trust_restored() {
  restart_evidence();
  let_go_soon();
}

std::size_t IncidentDesk::braked_incidents() const {
  return static_cast<std::size_t>(std::count_if(
      open_.begin(), open_.end(), [](const auto& entry) { return entry.second->is_braked(); }));
}

void IncidentDesk::forget(const NodeName& name) {
  const auto found = open_.find(name);
  MOONFENCE_CHECK(found != open_.end());
  // The incident is still on the stack: it dies at the end of the turn.
  around_.loop.defer([dead = std::shared_ptr<Open>(std::move(found->second))] { (void)dead; });
  open_.erase(found);
}

void IncidentDesk::lead() {
  leads_ = true;
}

void IncidentDesk::await_records() {
  awaits_records_ = true;
}

void IncidentDesk::take_over(const std::vector<Journal::Found>& records) {
  awaits_records_ = false;
  for (const Journal::Found& found : records) {
    const IncidentRecord& record = found.record;
    if (const auto acted = record.acted()) {
      const Duration ago = std::max<Duration>(around_.journal.now() - *acted, Duration::zero());
      around_.brake.recall({.node = record.node, .zone = record.zone}, around_.loop.now() - ago);
    }
    if (!record.closed) {
      inherit(found);
    }
  }
  std::map<NodeName, std::pair<NodeView, Look>> held_back;
  held_back.swap(held_back_);
  for (const auto& [name, held] : held_back) {
    if (!open_.contains(name)) {
      consider(held.first, held.second);
    }
  }
}

void IncidentDesk::inherit(const Journal::Found& found) {
  const auto [entry, is_new] = inherited_.try_emplace(found.record.node, found);
  if (is_new) {
    return;
  }
  Journal::Found older = found;
  if (entry->second.record.opened < older.record.opened) {
    std::swap(entry->second, older);
  }
  if (entry->second.record.node_uid == older.record.node_uid) {
    IncidentRecord& newest = entry->second.record;
    for (const IncidentRecord::Step& step : older.record.steps) {
      if (newest.find(step.uid()) == nullptr) {
        newest.steps.push_back(step);
      }
    }
  }
  around_.journal.close(older, Reason::SteppedDown);
}

void IncidentDesk::close_inherited(const NodeName& name, Reason reason) {
  if (const auto inherited = inherited_.extract(name)) {
    around_.journal.close(inherited.mapped(), reason);
  }
}

void IncidentDesk::review(const std::function<const NodeView*(const NodeName&)>& find) {
  std::map<NodeName, Reason> over;
  for (const auto& [name, found] : inherited_) {
    const NodeView* node = find(name);
    if (node == nullptr) {
      over.emplace(name, Reason::NodeGone);
    } else if (node->uid != found.record.node_uid) {
      over.emplace(name, Reason::NodeReplaced);
    } else if (!cluster::is_down(node->readiness)) {
      over.emplace(name, Reason::NodeReady);
    }
  }
  for (const auto& [name, reason] : over) {
    close_inherited(name, reason);
  }
}

void IncidentDesk::step_down() {
  leads_ = false;
  inherited_.clear();
  held_back_.clear();
  close_all(Reason::SteppedDown);
}

void IncidentDesk::stop() {
  stopped_ = true;
  close_all(Reason::Stopping);
}

void IncidentDesk::close_all(Reason reason) {
  while (!open_.empty()) {
    open_.begin()->second->stop(reason);
  }
}

}  // namespace moonfence::fence
