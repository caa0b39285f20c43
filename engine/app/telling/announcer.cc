#include "app/telling/announcer.h"

#include "audit/explanation.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;
using kube::EventNews;
using kube::EventObject;

EventObject node_of(const NodeName& node, const Uid& uid) {
  return {.api_version = "v1", .kind = "Node", .space = {}, .name = node.text(), .uid = uid};
}

EventObject node_of(const Record& record) {
  return node_of(record.node, record.node_uid);
}

EventObject pod_of(const Record& record) {
  if (!record.pod) {
    return node_of(record);
  }
  return {.api_version = "v1",
          .kind = "Pod",
          .space = record.pod->space,
          .name = record.pod->name,
          .uid = record.pod_uid};
}

std::string tail(const Record& record) {
  const std::string by = record.policy.empty() ? std::string() : "policy " + record.policy + ", ";
  return " (" + by + "incident " + record.incident.text() + ")";
}

std::string because(const Record& record) {
  return record.text.empty() ? std::string() : "; " + record.text;
}

// The reason's code, and the first sentence of what docs/reasons.md says of it.
std::string meaning(Reason reason) {
  const std::string when = audit::explain(reason).when;
  return std::string(audit::code(reason)) + ": " + when.substr(0, when.find(". "));
}

std::optional<EventNews> news_of_closing(const Record& record) {
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = node_of(record),
                    .action = "Fence",
                    .reason = "FencingSettled",
                    .note = "Nothing is left to do for this node" + tail(record)};
  switch (record.reason) {
    case Reason::Settled:
      return news;
    case Reason::NodeReady:
      news.reason = "NodeRecovered";
      news.note = "The node is Ready again" + because(record) + tail(record);
      return news;
    case Reason::SourceHealthy:
      news.reason = "NodeRecovered";
      news.note = "The health source of a policy does not call the node failed any more" +
                  because(record) + tail(record);
      return news;
    case Reason::NoPolicy:
    case Reason::RemediationOver:
    case Reason::SignalUnfit:
      news.reason = "FencingStopped";
      news.note = meaning(record.reason) + tail(record);
      return news;
    case Reason::Unreplaced:
      news.type = EventNews::Type::Warning;
      news.reason = "ReplacementMissing";
      news.note =
          "What was deleted has no replacement that is Ready" + because(record) + tail(record);
      return news;
    default:
      return std::nullopt;
  }
}

// Told on the pod that held it: whoever looks for the volume looks there.
std::optional<EventNews> news_of_detaching(const Record& record) {
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = pod_of(record),
                    .action = "Detach",
                    .reason = "VolumeDetaching",
                    .note = "Volume attachment " + record.attachment + " to node " +
                            record.node.text() +
                            " was deleted; it is gone when the storage lets go" + tail(record)};
  switch (record.reason) {
    case Reason::Done:
    case Reason::MarkedOnly:
      return news;
    case Reason::Detached:
      news.reason = "VolumeDetached";
      news.note = "Volume attachment " + record.attachment + " to node " + record.node.text() +
                  " is gone: the storage has let go" + tail(record);
      return news;
    case Reason::AlreadyGone:
    case Reason::Replaced:
      return std::nullopt;
    default:
      news.type = EventNews::Type::Warning;
      news.reason = "DetachFailed";
      news.note = "Volume attachment " + record.attachment +
                  " was not deleted, or that is not known: " + record.text + tail(record);
      return news;
  }
}

// Also told there. What only delays a release is told by nobody: Kubernetes' own check follows.
std::optional<EventNews> news_of_release(const Record& record) {
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = pod_of(record),
                    .action = "Release",
                    .reason = "VolumeReleased",
                    .note = "Kubernetes took its volume off node " + record.node.text() +
                            ": the storage had let go of it" + tail(record)};
  switch (record.reason) {
    case Reason::ReleaseAcknowledged:
      return news;
    case Reason::StorageWithdrawn:
      news.type = EventNews::Type::Warning;
      news.reason = "StorageWithdrawn";
      news.note = record.text + tail(record);
      return news;
    default:
      return std::nullopt;
  }
}

// Passes by itself, in moments or in its turn: nobody is told.
bool is_routine(Reason reason) {
  return reason == Reason::HoldingDown || reason == Reason::AwaitingTaint ||
         reason == Reason::TooManyAtOnce || reason == Reason::KernelUnsure;
}

// Nobody has to do anything about it for the engine to go on.
bool is_by_design(Reason reason) {
  return reason == Reason::PolicyHoldsNode || reason == Reason::SignalUnfit ||
         reason == Reason::LeaseAlive || reason == Reason::ReleaseNotServed ||
         reason == Reason::AwaitingDetach || reason == Reason::StillWaiting;
}

// Why it does not go on, told where it waits: at the pod if there is one.
std::optional<EventNews> news_of_waiting(const Record& record) {
  if (is_routine(record.reason)) {
    return std::nullopt;
  }
  const bool detaches = !record.attachment.empty();
  return EventNews{
      .type = is_by_design(record.reason) ? EventNews::Type::Normal : EventNews::Type::Warning,
      .regarding = record.pod ? pod_of(record) : node_of(record),
      .action = detaches ? "Detach" : "Fence",
      .reason = detaches ? "VolumeHeld" : "FencingHeld",
      .note = meaning(record.reason) + because(record) + tail(record),
      .subject =
          record.policy + " " + record.attachment + " " + std::string(audit::code(record.reason))};
}

std::optional<EventNews> news_of_holding(const Record& record) {
  if (record.reason == Reason::DetachOverdue) {
    return EventNews{.type = EventNews::Type::Warning,
                     .regarding = record.pod ? pod_of(record) : node_of(record),
                     .action = "Detach",
                     .reason = "DetachOverdue",
                     .note = "Volume attachments to node " + record.node.text() +
                             " are still there" + because(record) + tail(record)};
  }
  if (record.reason == Reason::ForcedDetachNear) {
    return EventNews{.type = EventNews::Type::Warning,
                     .regarding = record.pod ? pod_of(record) : node_of(record),
                     .action = "Detach",
                     .reason = "ForcedDetachNear",
                     .note = "Volume attachment " + record.attachment + " to node " +
                             record.node.text() +
                             " is still there; Kubernetes will soon act as if it were gone" +
                             because(record) + tail(record)};
  }
  EventNews news = {.type = EventNews::Type::Warning,
                    .regarding = node_of(record),
                    .action = "Fence",
                    .reason = "FencingBraked",
                    .note = {}};
  switch (record.reason) {
    case Reason::TooManyDown:
      news.note = "Nothing is done: too many nodes are down" + because(record) + tail(record);
      return news;
    case Reason::TooManyInWindow:
      news.note = "It waits: too many nodes were fenced lately" + tail(record);
      return news;
    case Reason::DoubtsItself:
      news.note = "Nothing is done: the engine doubts its own picture of the cluster" +
                  because(record) + tail(record);
      return news;
    case Reason::ZoneDisrupted:
      news.note = "It waits for its turn: most of its zone is down" + tail(record);
      return news;
    default:
      return news_of_waiting(record);
  }
}

// The node or pod was written by somebody else in between, or read too long ago: it is tried again
// at once. What goes on like that is told as failing.
bool is_race(Reason reason) {
  return reason == Reason::NodeChanged || reason == Reason::ReadingTooOld ||
         reason == Reason::PodChanged;
}

// Kubernetes' taint, on the node. Why it could not be set is told once an incident.
std::optional<EventNews> news_of_retiring(const Record& record) {
  if (record.kind == Record::Kind::Outcome && is_race(record.reason)) {
    return std::nullopt;
  }
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = node_of(record),
                    .action = "Retire",
                    .reason = "NodeOutOfService",
                    .note =
                        "Tainted node.kubernetes.io/out-of-service until the node is proven "
                        "clean: Kubernetes evicts its pods and detaches their volumes" +
                        tail(record)};
  if (record.reason != Reason::Done) {
    news.type = EventNews::Type::Warning;
    news.reason = "OutOfServiceFailed";
    news.note = "The taint node.kubernetes.io/out-of-service was not set: " +
                std::string(audit::code(record.reason)) +
                (record.pod ? ", pod " + record.pod->text() : std::string()) + because(record) +
                tail(record);
  }
  return news;
}

// Somebody has to mend something before what is wanted can be done.
bool waits_for_hands(Reason reason) {
  return reason == Reason::AttacherSilent || reason == Reason::DetachError ||
         reason == Reason::GuardFailed || reason == Reason::GuardBroken ||
         reason == Reason::AuditUnwritable || reason == Reason::HoldUnknown ||
         reason == Reason::ProofMissing || reason == Reason::FailingNotServed;
}

// The machine, on its node. What may go in a moment, or says that there is nothing to do about it,
// is no news: the pods' own say what is missing.
std::optional<EventNews> news_of_power(const Record& record) {
  if (is_race(record.reason) || record.reason == Reason::PowerNotOn) {
    return std::nullopt;
  }
  const bool isolates = record.action == "isolate";
  EventNews news = {
      .type = EventNews::Type::Warning,
      .regarding = node_of(record),
      .action = isolates ? "Isolate" : "SwitchOff",
      .reason = isolates ? "IsolationAccepted" : "SwitchOffAccepted",
      .note = (isolates ? "Its machine may be alive, and its storage is told to refuse it; whether "
                          "it does is read. Lift it after a reboot: docs/proof.md"
                        : "Its machine may be alive, and was told to switch off; whether it is "
                          "off is read") +
              tail(record)};
  if (record.reason != Reason::Done) {
    const bool tried = record.kind == Record::Kind::Outcome;
    news.type = tried || waits_for_hands(record.reason) ? EventNews::Type::Warning
                                                        : EventNews::Type::Normal;
    news.reason = isolates ? tried ? "IsolationFailed" : "IsolationHeld"
                  : tried  ? "SwitchOffFailed"
                           : "SwitchOffHeld";
    news.note = (isolates ? tried ? "Its storage is not known to be told to refuse it: "
                                  : "Its storage is not told to refuse it: "
                 : tried  ? "Its machine is not known to be told to switch off: "
                          : "Its machine is not switched off: ") +
                std::string(audit::code(record.reason)) + because(record) + tail(record);
  }
  return news;
}

// Our taint, on the node: when it was set, when it was taken off, and why it could not be.
std::optional<EventNews> news_of_quarantine(const Record& record) {
  const bool sets = record.action == "set_quarantine";
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = node_of(record),
                    .action = sets ? "Quarantine" : "HandBack",
                    .reason = sets ? "NodeQuarantined" : "NodeHandedBack",
                    .note = (sets ? "Tainted moonfence.io/fenced until the node is proven clean"
                                  : "What moonfence had tainted it with was taken off") +
                            tail(record)};
  if (record.reason == Reason::Done && record.kind != Record::Kind::Outcome) {
    return std::nullopt;
  }
  if (record.reason == Reason::Done) {
    if (!sets && !record.text.empty()) {
      news.reason = "QuarantineMarkRemoved";
      news.note = "moonfence's own mark was taken off" + because(record) + tail(record);
    }
    return news;
  }
  if (is_race(record.reason)) {
    return std::nullopt;
  }
  news.type = EventNews::Type::Warning;
  news.reason = sets ? "QuarantineFailed" : "QuarantineKept";
  news.note = (sets ? "The taint moonfence.io/fenced was not set: "
                    : "What moonfence tainted it with stays: ") +
              std::string(audit::code(record.reason)) + because(record) + tail(record);
  return news;
}

// The same of a silent machine's. That it was not set because of the brake, a hold or the mode is
// no news: Kubernetes keeps new pods off the node a moment later.
std::optional<EventNews> news_of_silent_taint(const Record& record) {
  const bool sets = record.action == "taint_silent";
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = node_of(record),
                    .action = sets ? "TaintSilent" : "LiftSilentTaint",
                    .reason = sets ? "NodeSilent" : "NodeHeard",
                    .note = sets ? "Its machine does not answer: tainted moonfence.io/silent until "
                                   "it does"
                                 : "Its machine answers: the taint moonfence.io/silent was taken "
                                   "off"};
  if (record.kind == Record::Kind::Intent || is_race(record.reason) ||
      (sets && record.kind == Record::Kind::Refusal)) {
    return std::nullopt;
  }
  if (record.reason == Reason::Done) {
    news.note += because(record);  // somebody else had taken it off
  } else {
    news.type = EventNews::Type::Warning;
    news.reason = sets ? "SilentTaintFailed" : "SilentTaintKept";
    news.note = std::string(sets ? "The taint moonfence.io/silent is not known to be set: "
                                 : "The taint moonfence.io/silent is not known to be gone: ") +
                std::string(audit::code(record.reason)) + because(record);
  }
  return news;
}

bool is_of_silent_taint(const Record& record) {
  return record.action == "taint_silent" || record.action == "lift_silent_taint";
}

bool is_quarantine(const Record& record) {
  return record.action == "set_quarantine" || record.action == "lift_quarantine";
}

std::optional<EventNews> news_of_outcome(const Record& record) {
  if (!record.attachment.empty()) {
    return news_of_detaching(record);
  }
  EventNews news = {.type = EventNews::Type::Normal,
                    .regarding = pod_of(record),
                    .action = "Delete",
                    .reason = "PodForceDeleted",
                    .note = "Deleted without waiting for its kubelet: node " + record.node.text() +
                            " is down" + tail(record)};
  if (record.action == "fail_pod" && (record.reason == Reason::Done || is_race(record.reason))) {
    return std::nullopt;  // the deletion that follows is told
  }
  switch (record.reason) {
    case Reason::Done:
      return news;
    case Reason::MarkedOnly:
      news.note = "Marked as deleted, but a finalizer keeps it: node " + record.node.text() +
                  " is down" + tail(record);
      return news;
    case Reason::OutcomeLost:
      news.type = EventNews::Type::Warning;
      news.reason = "FencingUncertain";
      news.note =
          "It may have been deleted or not; it is tried again: " + record.text + tail(record);
      return news;
    case Reason::AlreadyGone:
    case Reason::Replaced:
      return std::nullopt;
    default:
      news.type = EventNews::Type::Warning;
      news.reason = "FencingFailed";
      news.note = "Not deleted: " + record.text + tail(record);
      return news;
  }
}

// Of verdicts only those that somebody has to know of: the others are the bulk of a node's pods.
std::optional<EventNews> news_of_verdict(const Record& record) {
  switch (record.reason) {
    case Reason::ProofMissing:
      return EventNews{.type = EventNews::Type::Warning,
                       .regarding = pod_of(record),
                       .action = "Delete",
                       .reason = "ProofMissing",
                       .note = "Not deleted: " + record.text + tail(record)};
    case Reason::PolicyConflict:
    case Reason::PolicyFailed:
    case Reason::NeedsUnread:
      return EventNews{
          .type = EventNews::Type::Warning,
          .regarding = pod_of(record),
          .action = "Judge",
          .reason = record.reason == Reason::PolicyConflict ? "PolicyConflict" : "PolicyFailed",
          .note = meaning(record.reason) + because(record) + tail(record),
          .subject = record.policy};
    default:
      return std::nullopt;
  }
}

std::optional<EventNews> news_of_refusal(const Record& record) {
  if (is_race(record.reason)) {
    return std::nullopt;
  }
  const bool observes = record.reason == Reason::ModeObserves;
  const bool conflict = record.reason == Reason::PolicyConflict;
  return EventNews{
      .type = waits_for_hands(record.reason) ? EventNews::Type::Warning : EventNews::Type::Normal,
      .regarding = pod_of(record),
      .action = record.attachment.empty() ? "Delete" : "Detach",
      .reason = observes   ? "WouldForceDelete"
                : conflict ? "PolicyConflict"
                           : "FencingRefused",
      .note = (observes ? "Would be done in mode enforce: " + record.text
                        : meaning(record.reason) + because(record)) +
              tail(record),
      .subject = record.policy + " " + std::string(audit::code(record.reason))};
}

std::optional<EventNews> news_by_kind(const Record& record) {
  const bool ends = record.kind == Record::Kind::Outcome || record.kind == Record::Kind::Refusal;
  if (ends && record.action == "release_volume") {
    return news_of_release(record);
  }
  if (ends && record.action == "taint_out_of_service") {
    return news_of_retiring(record);
  }
  if (ends && (record.action == "switch_off" || record.action == "isolate")) {
    return news_of_power(record);
  }
  if (is_of_silent_taint(record)) {
    return news_of_silent_taint(record);
  }
  if (is_quarantine(record)) {
    return record.kind == Record::Kind::Intent ? std::nullopt : news_of_quarantine(record);
  }
  switch (record.kind) {
    case Record::Kind::IncidentOpened:
      return EventNews{.type = EventNews::Type::Warning,
                       .regarding = node_of(record),
                       .action = "Fence",
                       .reason = "FencingStarted",
                       .note = "The node is down (" + std::string(audit::code(record.reason)) +
                               "); its pods are judged" + tail(record)};
    case Record::Kind::IncidentClosed:
      return news_of_closing(record);
    case Record::Kind::Outcome:
      return news_of_outcome(record);
    case Record::Kind::Refusal:
      return news_of_refusal(record);
    case Record::Kind::IncidentHeld:
      return news_of_holding(record);
    case Record::Kind::Verdict:
      return news_of_verdict(record);
    case Record::Kind::Intent:
    case Record::Kind::Replacement:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<EventNews> news_of(const Record& record) {
  std::optional<EventNews> news = news_by_kind(record);
  if (news) {
    // A series is of one incident and says one thing: its text is never written again.
    news->subject += " " + record.incident.text();
    if (record.kind == Record::Kind::IncidentHeld) {
      news->subject += " " + record.text;
    }
    // What would be done in mode enforce is told of every pod, and takes the place of nothing else.
    news->is_deed = record.kind == Record::Kind::Outcome ||
                    (record.kind == Record::Kind::Refusal && record.reason != Reason::ModeObserves);
  }
  return news;
}

EventNews news_of(const fence::FencerCheck::Broken& broken) {
  return {.type = EventNews::Type::Warning,
          .regarding = node_of(broken.node, broken.uid),
          .action = "AskFencers",
          .reason = "FencerBroken",
          .note = "The node is Ready, and a fencer of its machine does not say that it is on: " +
                  broken.why};
}

EventNews news_of(const fence::EvidencePublisher::News& news) {
  return {.type = EventNews::Type::Normal,
          .regarding = node_of(news.node, news.uid),
          .action = "Fence",
          .reason = "FencingEvidence",
          .note = news.text + " (incident " + news.incident.text() + ")",
          .subject = news.incident.text() + " " + news.text,
          .is_deed = true};
}

}  // namespace moonfence::app
