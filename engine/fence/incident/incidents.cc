#include "fence/incident/incidents.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fence/incident/restore.h"

namespace moonfence::fence {

using audit::Reason;
using cluster::Look;
using cluster::NodeView;

namespace {

// `source`: the key of who calls it failed.
Reason reason_to_open(const NodeView& node, Look why, std::string_view source) {
  const Reason failed = is_by_detection(source) ? Reason::NodeLost : Reason::SourceFailed;
  const bool newly = why == Look::Fell || why == Look::Swept;
  if (node.readiness == cluster::Readiness::Failed && newly) {
    return failed;
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
  if (why == Look::Asked) {
    return Reason::RemediationAsked;
  }
  switch (node.readiness) {
    case cluster::Readiness::False:
      return Reason::NodeNotReady;
    case cluster::Readiness::Unknown:
      return Reason::NodeUnknown;
    case cluster::Readiness::Missing:
    case cluster::Readiness::True:
      return Reason::ReadyMissing;
    case cluster::Readiness::Gone:
      return Reason::NodeDeleted;
    case cluster::Readiness::Failed:
      return failed;
  }
  return Reason::NodeUnknown;
}

bool is_gone(const NodeView& node) {
  return node.readiness == cluster::Readiness::Gone;
}

}  // namespace

Incidents::Incidents(IncidentContext surroundings, IncidentRules rules,
                     std::function<IncidentId()> make_id)
    : around_(std::move(surroundings)),
      rules_(rules),
      make_id_(std::move(make_id)),
      inheritance_(around_.output.journal),
      is_left_([this](const NodeName& name) { return left_behind_.contains(name); }) {
  around_.in_force.brake.on_room(this, [this] { let_go_soon(); });
}

Incidents::~Incidents() {
  around_.in_force.brake.on_room(this, nullptr);
}

void Incidents::look_at(const NodeView& node, Look why) {
  if (stopped_) {
    return;
  }
  if (why == Look::Asked && (!is_informed() || open_.contains(node.name))) {
    return;  // whoever asks asks again
  }
  const bool is_down = this->is_down(node);
  if (!is_down) {
    down_.erase(node.name);
  }
  if (why != Look::Asked && why != Look::Changed) {
    asked_for_.erase(node.name);
  }
  auto found = open_.find(node.name);
  const bool anew = is_down && (why == Look::Fell || why == Look::Expired);
  if (anew && found != open_.end() && found->second->is_verifying()) {
    found->second->stop(Reason::Unreplaced);  // there is more to be done than to wait
    found = open_.end();
  }
  if (why == Look::Fell && found != open_.end() && found->second->is_outlived_by(node)) {
    // What is left on that name is bound to a node that is down, whenever it was bound.
    found->second->stop(Reason::NodeReplaced);
    found = open_.end();
  }
  if (found != open_.end()) {
    IncidentDriver& incident = *found->second;
    if (is_down) {
      remember(node, why);
    }
    if (why != Look::PoliciesChanged) {  // no news of the node
      incident.node_seen(node, why);
    }
    take_up_left_behind(node);
    return;
  }
  inheritance_.drop(node, is_down || (is_gone(node) && keeps_deleted()), is_left_);
  if (is_down) {
    remember(node, why);
  }
  take_up_left_behind(node);
  if (!is_down || open_.contains(node.name)) {
    held_back_.erase(node.name);
    return;
  }
  const bool calls_for_it = why != Look::Changed || is_gone(node);
  if (leads_ && awaits_records_ && calls_for_it) {
    held_back_.try_emplace(node.name, node, why).first->second.first = node;
  } else if (leads_ && !awaits_records_) {
    consider(node, why);
  }
}

void Incidents::withdraw_all_but(const std::set<NodeName>& asked) {
  for (const NodeName& name : std::set<NodeName>(asked_for_)) {
    const auto found = open_.find(name);
    if (!asked.contains(name) && found != open_.end() && !found->second->is_verifying() &&
        !found->second->is_midway()) {
      found->second->stop(Reason::RemediationOver);
    }
  }
}

IncidentId Incidents::open_of(const NodeName& node) const {
  const auto found = open_.find(node);
  return found == open_.end() ? IncidentId() : found->second->incident_status().incident;
}

void Incidents::evidence_found(const NodeName& node) {
  if (const auto found = open_.find(node); found != open_.end()) {
    found->second->evidence_found();
  }
}

// Whether an incident is to be opened.
void Incidents::consider(const NodeView& node, Look why) {
  inheritance_.drop(node, is_down(node), is_left_);
  take_up_left_behind(node);
  if (open_.contains(node.name)) {
    return;  // it comes after what is left of the one before (look_at_successors)
  }
  Downtime downtime = down_.at(node.name).downtime;
  // Neither tells of a fall: who did not act on it then does not begin to now.
  downtime.fell = downtime.fell && why != Look::PoliciesChanged && why != Look::Asked;
  const IncidentRecord* inherited = inheritance_.find(node.name);
  if (inherited != nullptr && inherited->node_uid == node.uid) {
    downtime.fell = downtime.fell || inherited->fell;
  } else if (why == Look::Changed && !is_gone(node)) {
    return;  // a change alone is no reason to look at a node that is dealt with
  }
  const HoldDowns hold_downs = rules_for(downtime).hold_downs;
  if (is_gone(node) ? hold_downs.deleted_silent : hold_downs.silent) {
    if (why == Look::Asked && inherited == nullptr) {
      asked_for_.insert(node.name);
    }
    open(node, why, downtime);
  } else if (is_gone(node)) {
    inheritance_.close(node.name, Reason::NodeGone);
  }
}

const Downtime& Incidents::remember(const NodeView& node, Look why) {
  if (is_gone(node)) {
    forget_deleted();
  }
  const auto [entry, is_new] = down_.try_emplace(node.name);
  Down& down = entry->second;
  if (is_new || down.uid != node.uid || why == Look::Fell) {
    down = {.uid = node.uid,
            .downtime = {.since = around_.access.loop.now(),
                         .fell = why == Look::Fell || why == Look::Expired,
                         .heard = why == Look::Fell ? std::optional(around_.access.loop.now())
                                                    : std::nullopt},
            .view = node};
  } else if (why == Look::Expired) {
    down.downtime.fell = true;  // it was down all the while: nobody waits for it to fall any more
  }
  down.deleted = is_gone(node);
  down.view = node;
  return down.downtime;
}

void Incidents::open(const NodeView& node, Look why, const Downtime& downtime) {
  const Reason reason = reason_to_open(
      node, why, around_.access.source == nullptr ? "" : around_.access.source->key());
  auto made = std::make_unique<IncidentDriver>(*this, around_, opened_++, node, downtime,
                                               ledger_for(node, reason, downtime));
  IncidentDriver& incident = *open_.emplace(node.name, std::move(made)).first->second;
  incident.begin(node, reason);
}

void Incidents::take_up_left_behind(const NodeView& successor) {
  forget_left_behind();
  const auto found = left_behind_.find(successor.name);
  if (found == left_behind_.end() || is_gone(successor)) {
    return;
  }
  if (found->second.node.uid == successor.uid) {  // as a record has it, and is it still there?
    if (!is_down(successor)) {
      left_behind_.erase(found);
    }
    return;
  }
  const HoldDowns hold_downs = rules_for(found->second.downtime).hold_downs;
  const bool concerns_somebody = found->second.was_silent ? hold_downs.silent.has_value()
                                                          : hold_downs.deleted_silent.has_value();
  // Where the policies are not known yet, take_up_deleted() comes back to it.
  if (!concerns_somebody || open_.contains(successor.name) || !leads_ || stopped_ ||
      awaits_records_) {
    return;
  }
  IncidentDriver::LeftBehind left = std::move(found->second);
  left_behind_.erase(found);
  const std::shared_ptr<RecordLedger> ledger =
      ledger_for(left.node, Reason::NodeReplaced, left.downtime);
  ledger->booted(left.node.boot_id);
  if (left.was_silent) {
    ledger->silent(around_.output.journal.now() - (around_.access.loop.now() - left.at));
  }
  auto made =
      std::make_unique<IncidentDriver>(*this, around_, opened_++, left.node, left.downtime, ledger);
  IncidentDriver& incident = *open_.emplace(left.node.name, std::move(made)).first->second;
  const NodeView node = left.node;
  incident.take_up(std::move(left));
  incident.begin(node, Reason::NodeReplaced);
}

void Incidents::forget_left_behind() {
  std::erase_if(left_behind_, [this](const auto& entry) {
    return around_.access.loop.now() - entry.second.at > cluster::kDepartedFor;
  });
}

// Also of one that is closed: its Node went, or was made anew, and then its leader did.
void Incidents::recall_left_behind(const IncidentRecord& record) {
  const auto ago = silent_ago(record, around_.output.journal.now());
  const bool over =
      record.closed && record.closed->reason != Reason::NodeGone &&
      (record.closed->reason != Reason::NodeReplaced || record.opened_for == Reason::NodeReplaced);
  if (!ago || over || around_.access.source != nullptr || !record.source.empty()) {
    return;
  }
  const Moment now = around_.access.loop.now();
  IncidentDriver::LeftBehind left = {
      .node = {.name = record.node,
               .uid = record.node_uid,
               .readiness = cluster::Readiness::Unknown,
               .keeps_replacements_off = true,  // nothing can be bound to it any more
               .boot_id = record.boot_id,
               .zone = record.zone,
               .hold = hold_of(record)},
      .downtime = {.since = now, .fell = record.fell},
      .was_silent = true,
      .last_seen = std::nullopt,
      .at = now - *ago};
  const auto [entry, is_new] = left_behind_.try_emplace(record.node, left);
  if (!is_new && entry->second.at < left.at) {
    entry->second = std::move(left);
  }
}

std::shared_ptr<RecordLedger> Incidents::ledger_for(const NodeView& node, Reason why,
                                                    const Downtime& downtime) {
  const IncidentRecord* left = inheritance_.find(node.name);
  if (left != nullptr && left->node_uid == node.uid) {
    return around_.output.journal.resume(*inheritance_.take(node.name));
  }
  IncidentRecord record;
  record.id = make_id_();
  record.node = node.name;
  record.node_uid = node.uid;
  record.zone = node.zone;
  record.source = around_.access.source == nullptr ? std::string() : around_.access.source->key();
  record.fell = downtime.fell;
  record.opened = around_.output.journal.now();
  if (const cluster::Kernels* kernels = around_.in_force.kernels) {
    if (const auto sign = kernels->last_sign(node.name)) {
      record.last_sign = record.opened - (around_.access.loop.now() - *sign);
    }
  }
  record.opened_for = why;
  return around_.output.journal.begin(std::move(record));
}

IncidentRules Incidents::rules_for(const Downtime& downtime) const {
  IncidentRules rules = rules_;
  rules.quarantine = around_.in_force.quarantine;
  // Kubernetes, which has noticed nothing yet, is not waited for.
  const bool is_first =
      around_.access.source != nullptr && !around_.access.source->goes_without_taint();
  if (is_first && rules.quarantine == Quarantine::Missing) {
    rules.quarantine = Quarantine::Always;
  }
  rules.hold_downs =
      hold_downs(*around_.in_force.active.current(), downtime.fell,
                 around_.access.source == nullptr ? "" : around_.access.source->key());
  return rules;
}

bool Incidents::is_down(const NodeView& node) const {
  return cluster::is_down(node.readiness) || (is_gone(node) && serves_deleted());
}

bool Incidents::serves_deleted() const {
  return around_.access.source == nullptr &&
         acts_on_deleted(*around_.in_force.active.current(), /*fell=*/true);
}

// As long as nobody knows the policies, one of them may act on it.
bool Incidents::keeps_deleted() const {
  return around_.access.source == nullptr && (!policies_known_ || serves_deleted());
}

// Names of nodes that come and go would pile up.
void Incidents::forget_deleted() {
  std::erase_if(down_, [this](const auto& entry) {
    const Down& down = entry.second;
    return down.deleted && !open_.contains(entry.first) && !held_back_.contains(entry.first) &&
           around_.access.loop.now() - down.downtime.since > cluster::kDepartedFor;
  });
}

void Incidents::review(const Find& find) {
  forget_left_behind();
  inheritance_.review(find, keeps_deleted(), is_left_);
}

void Incidents::take_up_deleted(const Find& find, const std::function<bool(const NodeName&)>& may) {
  if (!leads_ || stopped_ || awaits_records_) {
    return;
  }
  std::vector<NodeName> names;  // an incident may be opened over it
  for (const auto& [name, left] : left_behind_) {
    names.push_back(name);
  }
  for (const NodeName& name : names) {
    const NodeView* node = may(name) ? find(name) : nullptr;
    if (node != nullptr) {
      take_up_left_behind(*node);
    }
  }
  if (!serves_deleted()) {
    return;
  }
  for (const NodeView& node : inheritance_.absent(find)) {
    if (may(node.name) && !open_.contains(node.name)) {
      remember(node, Look::TookOver);
      consider(node, Look::TookOver);
    }
  }
}

void Incidents::policies_changed() {
  policies_known_ = true;
  std::vector<NodeName> names;  // an incident may close over it
  for (const auto& [name, incident] : open_) {
    names.push_back(name);
  }
  for (const NodeName& name : names) {
    open_.at(name)->policies_changed();
  }
}

void Incidents::census_changed(const cluster::Census& census) {
  const Moment now = around_.access.loop.now();
  around_.in_force.brake.count(census, now);
  engaged_ = engaged_ || around_.in_force.brake.engaged(now);
  let_go_soon();
}

void Incidents::let_go_soon() {
  if (!let_go_soon_.pending() && (engaged_ || !open_.empty())) {
    let_go_soon_ = around_.access.loop.in_next_turn([this] { let_go(); });
  }
}

void Incidents::let_go() {
  const Moment now = around_.access.loop.now();
  around_.in_force.brake.pass_time(now);
  engaged_ =
      engaged_ || around_.in_force.brake.engaged(now);  // a pass may have come to suspect a storm
  if (engaged_ && !around_.in_force.brake.engaged(now)) {
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
  if (const auto next = around_.in_force.brake.next_release(now);
      next && (engaged_ || !waiting.empty())) {
    let_go_later_ = around_.access.loop.after(*next - now, [this] { let_go(); });
  }
}

// While too many nodes were down, or we doubted ourselves, nobody knew whether it was they: their
// hold-downs begin anew.
void Incidents::restart_evidence() {
  for (auto& [name, down] : down_) {
    down.downtime.since = around_.access.loop.now();
  }
  for (const auto& [name, incident] : open_) {
    incident->restart_evidence();
  }
}

void Incidents::trust_restored() {
  restart_evidence();
  let_go_soon();
}

std::size_t Incidents::braked_incidents() const {
  return static_cast<std::size_t>(std::count_if(
      open_.begin(), open_.end(), [](const auto& entry) { return entry.second->is_braked(); }));
}

std::size_t Incidents::failing_incidents() const {
  return static_cast<std::size_t>(std::count_if(
      open_.begin(), open_.end(), [](const auto& entry) { return entry.second->is_failing(); }));
}

void Incidents::name_failing(std::set<std::string>& policies) const {
  for (const auto& [name, incident] : open_) {
    policies.insert(incident->failing().begin(), incident->failing().end());
  }
}

void Incidents::stand(std::vector<IncidentStatus>& all) const {
  for (const auto& [name, incident] : open_) {
    all.push_back(incident->incident_status());
  }
}

std::map<Reason, std::size_t> Incidents::awaited_replacements() const {
  std::map<Reason, std::size_t> awaited;
  if (rules_.replacement_wait == Duration::zero()) {
    return awaited;
  }
  for (const auto& [name, incident] : open_) {
    for (const auto& [reason, pods] : incident->replacements().obstacles()) {
      awaited[reason] += pods;
    }
  }
  return awaited;
}

void Incidents::forget(const NodeName& name) {
  const auto found = open_.find(name);
  MOONFENCE_CHECK(found != open_.end());
  if (auto left = found->second->left_behind()) {
    left_behind_.insert_or_assign(name, *std::move(left));
  } else {
    left_behind_.erase(name);
  }
  const auto down = down_.find(name);
  if (down != down_.end() && down->second.uid != found->second->node_uid()) {
    successors_.push_back(down->second.view);
    successors_turn_ = around_.access.loop.in_next_turn([this] { look_at_successors(); });
  }
  asked_for_.erase(name);
  // The incident is still on the stack: it dies at the end of the turn.
  around_.access.loop.defer(
      [dead = std::shared_ptr<IncidentDriver>(std::move(found->second))] { (void)dead; });
  open_.erase(found);
}

void Incidents::look_at_successors() {
  for (const NodeView& node : std::exchange(successors_, {})) {
    const auto down = down_.find(node.name);
    if (leads_ && !stopped_ && !awaits_records_ && !open_.contains(node.name) &&
        down != down_.end() && down->second.uid == node.uid && is_down(node)) {
      consider(node, Look::Fell);
    }
  }
}

void Incidents::lead() {
  leads_ = true;
}

void Incidents::await_records() {
  awaits_records_ = true;
}

void Incidents::take_over(const std::vector<Journal::Found>& records) {
  awaits_records_ = false;
  if (stopped_) {
    return;  // they came too late: the next leader reads them too
  }
  for (const Journal::Found& found : records) {
    const IncidentRecord& record = found.record;
    if (const auto acted = record.acted()) {
      const Duration ago =
          std::max<Duration>(around_.output.journal.now() - *acted, Duration::zero());
      around_.in_force.brake.recall({.node = record.node, .zone = record.zone},
                                    around_.access.loop.now() - ago);
    }
    if (!record.closed) {
      inheritance_.add(found);
    }
    recall_left_behind(record);
  }
  std::map<NodeName, std::pair<NodeView, Look>> held_back;
  held_back.swap(held_back_);
  for (const auto& [name, held] : held_back) {
    if (!open_.contains(name)) {
      consider(held.first, held.second);
    }
  }
}

void Incidents::step_down(audit::Reason why) {
  leads_ = false;
  inheritance_.forget();
  held_back_.clear();
  left_behind_.clear();
  close_all(why);
}

void Incidents::stop() {
  stopped_ = true;
  close_all(Reason::Stopping);
}

void Incidents::close_all(Reason reason) {
  while (!open_.empty()) {
    open_.begin()->second->stop(reason);
  }
}

}  // namespace moonfence::fence
