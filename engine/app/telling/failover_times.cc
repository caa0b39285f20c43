#include "app/telling/failover_times.h"

#include <algorithm>
#include <array>

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

constexpr std::array<std::string_view, 6> kStages = {"detect", "confirm",  "decide",
                                                     "delete", "detached", "replaced"};

// Opened because the node fell just now; the others were down before we looked.
bool is_fresh(Reason reason) {
  return reason == Reason::NodeNotReady || reason == Reason::NodeUnknown ||
         reason == Reason::ReadyMissing;
}

bool wants_deletion(Reason reason) {
  return reason == Reason::PolicyDeletesPod || reason == Reason::PolicyDeletesPodAndAttachments;
}

}  // namespace

std::span<const std::string_view> FailoverTimes::stages() {
  return kStages;
}

void FailoverTimes::note(const Record& record, Moment now,
                         const std::optional<Duration>& down_for) {
  switch (record.kind) {
    case Record::Kind::IncidentOpened:
      open_.insert_or_assign(record.incident, Open{.opened = now, .wanted = {}});
      if (down_for && is_fresh(record.reason)) {
        observe_("detect", std::max(*down_for, Duration::zero()));
      }
      return;
    case Record::Kind::IncidentClosed:
      open_.erase(record.incident);
      return;
    case Record::Kind::Verdict:
      note_verdict(record, now);
      return;
    case Record::Kind::Intent:
      if (const auto open = open_.find(record.incident); open != open_.end()) {
        if (const auto wanted =
                open->second.wanted.extract({record.pod_uid, record.policy_digest})) {
          observe_("decide", now - wanted.mapped());
        }
      }
      return;
    case Record::Kind::Outcome:
      note_outcome(record);
      return;
    case Record::Kind::Replacement:
      if (record.reason == Reason::ReplacementReady) {
        observe_("replaced", record.took);
      }
      return;
    case Record::Kind::IncidentHeld:
    case Record::Kind::Refusal:
      return;
  }
}

void FailoverTimes::note_verdict(const Record& record, Moment now) {
  const auto found = open_.find(record.incident);
  if (found == open_.end()) {
    return;
  }
  Open& open = found->second;
  if (!open.confirmed) {
    open.confirmed = true;
    observe_("confirm", now - open.opened);
  }
  if (wants_deletion(record.reason)) {
    open.wanted.try_emplace({record.pod_uid, record.policy_digest}, now);
  }
}

void FailoverTimes::note_outcome(const Record& record) const {
  if (record.action == "delete_pod" &&
      (record.reason == Reason::Done || record.reason == Reason::MarkedOnly)) {
    observe_("delete", record.took);
  } else if (record.action == "delete_attachment" &&
             (record.reason == Reason::Done || record.reason == Reason::Detached)) {
    observe_("detached", record.took);
  }
}

}  // namespace moonfence::app
