#include "app/webhook/incident_news.h"

#include <algorithm>
#include <utility>

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

// Its node was known to be down already, and nothing is new yet.
bool is_opened_anew(Reason reason) {
  return reason == Reason::EntryExpired || reason == Reason::PoliciesChanged;
}

// Somebody goes on with it.
bool is_handed_over(Reason reason) {
  return reason == Reason::SteppedDown || reason == Reason::Stopping ||
         reason == Reason::StoreWentBack;
}

// Our taints keep pods off and take nothing away.
bool changes_only_our_taint(Reason reason) {
  return reason == Reason::SetsSilentTaint || reason == Reason::SetsQuarantine ||
         reason == Reason::LiftsSilentTaint || reason == Reason::LiftsQuarantine;
}

// Why its call was made, as the intent's record said.
Reason reason_of(const fence::IncidentRecord::Step& step) {
  using Kind = fence::IncidentRecord::Step::Kind;
  switch (step.kind) {
    case Kind::TaintNode:
      return Reason::SetsOutOfService;
    case Kind::DeleteAttachment:
      return step.before_pod ? Reason::PolicyDeletesAttachments
                             : Reason::PolicyDeletesPodAndAttachments;
    case Kind::DeletePod:
      break;
  }
  return Reason::PolicyDeletesPod;
}

const IncidentStory* story_of(const StatusSnapshot& snapshot, const IncidentId& id) {
  for (const auto* stories : {&snapshot.under_way, &snapshot.past}) {
    const auto found = std::find_if(stories->begin(), stories->end(),
                                    [&id](const auto& story) { return story->id == id; });
    if (found != stories->end()) {
      return found->get();
    }
  }
  return nullptr;
}

std::optional<EventPods> pods_of(const StatusSnapshot& snapshot, const IncidentId& id) {
  const IncidentStory* story = story_of(snapshot, id);
  if (story == nullptr) {
    return std::nullopt;
  }
  const PodCounts counts = count_pods(*story);
  return EventPods{.judged = story->pods.size(),
                   .deleted = counts.deleted,
                   .not_deleted = counts.not_done,
                   .would_delete = counts.would_delete,
                   .waiting = counts.waiting,
                   .left_alone = counts.left_alone};
}

}  // namespace

void IncidentNews::forget() {
  entries_.clear();
  earlier_.clear();
  pending_.clear();
}

void IncidentNews::recall(const fence::IncidentRecord& record, WallTime now) {
  if (!record.closed) {
    earlier_.insert_or_assign(record.id, recalled(record));
    return;
  }
  if (now - record.closed->at >= kToldAnew) {
    return;
  }
  IncidentEvent event = {.incident = record.id,
                         .node = record.node,
                         .phase = IncidentPhase::Attention,
                         .reason = record.closed->reason,
                         .at = record.closed->at,
                         .opened = record.opened,
                         .opened_for = record.opened_for};
  if (event.reason == Reason::Unreplaced) {
    pending_.push_back(event);
  }
  event.phase = IncidentPhase::Settled;
  event.took = record.closed->at - record.opened;
  pending_.push_back(std::move(event));
}

// The step that was planned first of those that left: it may have been sent again since.
IncidentNews::Recalled IncidentNews::recalled(const fence::IncidentRecord& record) {
  Recalled known = {.opened = record.opened, .opened_for = record.opened_for};
  for (const auto& step : record.steps) {
    if (step.sent && (!known.acted || step.planned < *known.acted)) {
      known.acted = step.planned;
      known.acted_for = reason_of(step);
    }
  }
  return known;
}

void IncidentNews::hear(const Record& record, WallTime at) {
  if (record.incident.empty()) {
    return;
  }
  switch (record.kind) {
    case Record::Kind::IncidentOpened:
      begin(record, at);
      return;
    case Record::Kind::Intent:
      if (!changes_only_our_taint(record.reason)) {
        act(record, at);
      }
      return;
    case Record::Kind::IncidentClosed:
      close(record, at);
      return;
    case Record::Kind::IncidentHeld:
    case Record::Kind::Verdict:
    case Record::Kind::Refusal:
    case Record::Kind::Outcome:
    case Record::Kind::Replacement:
      return;
  }
}

void IncidentNews::begin(const Record& record, WallTime at) {
  const auto [found, is_new] = entries_.try_emplace(record.incident);
  if (!is_new) {
    return;
  }
  Entry& entry = found->second;
  entry.node = record.node;
  // What an earlier leader told is told by the same words.
  const auto earlier = earlier_.extract(record.incident);
  const Recalled known =
      earlier.empty() ? Recalled{.opened = at, .opened_for = record.reason} : earlier.mapped();
  entry.opened = known.opened;
  entry.opened_for = known.opened_for;
  if (known.acted || !is_opened_anew(known.opened_for)) {
    open(record.incident, entry);
  }
  if (known.acted) {
    entry.acts = true;
    pending_.push_back(
        event_of(record.incident, entry, IncidentPhase::Acting, known.acted_for, *known.acted));
  }
}

void IncidentNews::open(const IncidentId& id, Entry& entry) {
  if (!std::exchange(entry.is_told, true)) {
    pending_.push_back(event_of(id, entry, IncidentPhase::Opened, entry.opened_for, entry.opened));
  }
}

void IncidentNews::act(const Record& record, WallTime at) {
  const auto found = entries_.find(record.incident);
  if (found == entries_.end() || std::exchange(found->second.acts, true)) {
    return;
  }
  open(record.incident, found->second);
  pending_.push_back(
      event_of(record.incident, found->second, IncidentPhase::Acting, record.reason, at));
}

void IncidentNews::close(const Record& record, WallTime at) {
  auto closed = entries_.extract(record.incident);
  earlier_.erase(record.incident);
  if (is_handed_over(record.reason)) {
    return;
  }
  if (closed.empty()) {
    // Of a record that nobody can go on with.
    pending_.push_back({.incident = record.incident,
                        .node = record.node,
                        .phase = IncidentPhase::Settled,
                        .reason = record.reason,
                        .at = at,
                        .opened = at - record.took,
                        .took = record.took});
    return;
  }
  Entry& entry = closed.mapped();
  if (record.reason == Reason::Unreplaced) {
    open(record.incident, entry);
    pending_.push_back(
        event_of(record.incident, entry, IncidentPhase::Attention, record.reason, at));
  }
  if (entry.is_told) {
    IncidentEvent event =
        event_of(record.incident, entry, IncidentPhase::Settled, record.reason, at);
    event.took = record.took;
    pending_.push_back(std::move(event));
  }
}

void IncidentNews::look(const StatusSnapshot& snapshot, bool enforces, Moment now, WallTime at) {
  std::map<IncidentId, const fence::IncidentStatus*> known;
  for (const StatusSnapshot::Stand& stand : snapshot.stands) {
    known.emplace(stand.incident_status.incident, &stand.incident_status);
  }
  for (auto& [id, entry] : entries_) {
    const auto found = known.find(id);
    follow(id, entry, found == known.end() ? nullptr : found->second, now, at);
  }
  for (IncidentEvent& event : std::exchange(pending_, {})) {
    if (const auto entry = entries_.find(event.incident); entry != entries_.end()) {
      event.opened = entry->second.opened;  // as its record says, which a new leader goes on with
    }
    event.enforces = enforces;
    event.pods = pods_of(snapshot, event.incident);
    tell_(event);
  }
}

void IncidentNews::follow(const IncidentId& id, Entry& entry, const fence::IncidentStatus* status,
                          Moment now, WallTime at) {
  if (status != nullptr) {
    entry.opened = status->opened;
  }
  entry.trouble.follow(status != nullptr ? std::optional(status->state) : std::nullopt, false, now);
  if (!entry.trouble.is_stalled(now)) {
    entry.newest.reset();
  } else if (status != nullptr && fence::Trouble::is_troubled(status->state) && status->reason) {
    need(id, entry, *status->reason, now, at);  // else: out of it for a moment only
  }
}

void IncidentNews::need(const IncidentId& id, Entry& entry, Reason reason, Moment now,
                        WallTime at) {
  if (std::exchange(entry.newest, reason) == reason) {
    return;
  }
  const auto [last, is_new] = entry.attention.try_emplace(reason, now);
  if (!is_new && now - last->second < kAttentionAgain) {
    return;
  }
  last->second = now;
  open(id, entry);
  IncidentEvent event = event_of(id, entry, IncidentPhase::Attention, reason, at);
  event.trouble = at;
  pending_.push_back(std::move(event));
}

IncidentEvent IncidentNews::event_of(const IncidentId& id, const Entry& entry, IncidentPhase phase,
                                     Reason reason, WallTime at) const {
  return {.incident = id,
          .node = entry.node,
          .phase = phase,
          .reason = reason,
          .at = at,
          .opened = entry.opened,
          .opened_for = entry.opened_for};
}

}  // namespace moonfence::app
