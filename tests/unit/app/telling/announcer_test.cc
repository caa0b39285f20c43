#include "app/telling/announcer.h"

#include <set>

#include <gtest/gtest.h>

#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

// "Warning FencingStarted Node n1 node-1"; "" for no event.
std::string news(Record::Kind kind, Reason reason) {
  const auto told = news_of(record_of(kind, reason));
  if (!told) {
    return "";
  }
  const auto& object = told->regarding;
  return std::string(told->type == kube::EventNews::Type::Warning ? "Warning " : "Normal ") +
         told->reason + " " + object.kind + " " +
         (object.space.empty() ? "" : object.space.text() + "/") + object.name + " " +
         object.uid.text();
}

TEST(Announcer, an_incident_is_told_at_the_node_with_its_real_uid) {
  for (const Reason reason : {Reason::NodeNotReady, Reason::NodeUnknown, Reason::ReadyMissing,
                              Reason::StartupSweep, Reason::EntryExpired}) {
    EXPECT_EQ(news(Record::Kind::IncidentOpened, reason), "Warning FencingStarted Node n1 node-1");
  }
}

TEST(Announcer, what_was_done_and_what_a_guard_refused_gives_way_to_nothing) {
  EXPECT_TRUE(news_of(record_of(Record::Kind::Outcome, Reason::Done))->is_weighty());
  EXPECT_TRUE(news_of(record_of(Record::Kind::Refusal, Reason::OwnNode))->is_weighty());
  EXPECT_TRUE(news_of(record_of(Record::Kind::IncidentOpened, Reason::NodeUnknown))->is_weighty());
  EXPECT_FALSE(news_of(record_of(Record::Kind::Refusal, Reason::ModeObserves))->is_weighty());
  EXPECT_FALSE(news_of(record_of(Record::Kind::IncidentClosed, Reason::Settled))->is_weighty());
}

TEST(Announcer, what_the_brake_holds_back_is_told_unless_it_is_about_to_follow) {
  for (const Reason reason : {Reason::TooManyDown, Reason::TooManyInWindow, Reason::ZoneDisrupted,
                              Reason::DoubtsItself}) {
    EXPECT_EQ(news(Record::Kind::IncidentHeld, reason), "Warning FencingBraked Node n1 node-1");
  }
  for (const Reason reason : {Reason::TooManyAtOnce, Reason::HoldingDown, Reason::AwaitingTaint}) {
    EXPECT_EQ(news(Record::Kind::IncidentHeld, reason), "");
  }
}

TEST(Announcer, whatever_else_holds_it_is_told_in_the_words_of_the_documentation) {
  for (const Reason reason :
       {Reason::Unreadable, Reason::LeaseUnreadable, Reason::GuardBroken, Reason::PolicyFailing,
        Reason::TaintNotServed, Reason::AttacherUnwatched, Reason::StillFailing}) {
    EXPECT_EQ(news(Record::Kind::IncidentHeld, reason), "Warning FencingHeld Node n1 node-1");
  }
  EXPECT_EQ(news(Record::Kind::IncidentHeld, Reason::PolicyHoldsNode),
            "Normal FencingHeld Node n1 node-1");
  EXPECT_EQ(news_of(record_of(Record::Kind::IncidentHeld, Reason::AttacherUnwatched))->note,
            "attacher_unwatched: Volumes are to be released, and no Lease of their driver's "
            "attacher is configured; because (policy noobaa, incident i1)");
}

TEST(Announcer, what_is_proven_of_a_node_is_told_at_the_node_and_again_when_it_is_something_else) {
  const auto first = news_of(fence::EvidencePublisher::News{.node = NodeName("n1"),
                                                            .uid = Uid("node-1"),
                                                            .incident = IncidentId("i1"),
                                                            .text = "off: …"});
  EXPECT_EQ(first.reason, "FencingEvidence");
  EXPECT_EQ(first.type, kube::EventNews::Type::Normal);
  EXPECT_EQ(first.regarding.kind + " " + first.regarding.name, "Node n1");
  EXPECT_EQ(first.regarding.uid, Uid("node-1"));
  EXPECT_EQ(first.note, "off: … (incident i1)");
  const auto second = news_of(fence::EvidencePublisher::News{.node = NodeName("n1"),
                                                             .uid = Uid("node-1"),
                                                             .incident = IncidentId("i1"),
                                                             .text = "attested: …"});
  EXPECT_NE(first.subject, second.subject);
}

TEST(Announcer, a_volume_that_is_waited_for_is_told_at_the_pod_that_held_it) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::AwaitingDetach);
  record.attachment = "csi-1";
  record.pod = PodRef{.space = Namespace("db"), .name = "web-0"};
  EXPECT_EQ(news_of(record)->reason, "VolumeHeld");
  EXPECT_EQ(news_of(record)->type, kube::EventNews::Type::Normal);
  EXPECT_EQ(news_of(record)->regarding.kind, "Pod");
  const std::string subject = news_of(record)->subject;
  record.attachment = "csi-2";
  EXPECT_NE(news_of(record)->subject, subject) << "another volume is no repeat";
  record = record_of(Record::Kind::Outcome, Reason::Detached);
  record.attachment = "csi-1";
  EXPECT_EQ(news_of(record)->reason, "VolumeDetached");
}

TEST(Announcer, of_verdicts_those_are_told_that_somebody_has_to_mend) {
  EXPECT_EQ(news(Record::Kind::Verdict, Reason::PolicyFailed),
            "Warning PolicyFailed Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Verdict, Reason::NeedsUnread),
            "Warning PolicyFailed Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Verdict, Reason::PolicyConflict),
            "Warning PolicyConflict Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Verdict, Reason::PolicyDeletesPod), "");
}

TEST(Announcer, every_refusal_is_told_but_those_that_are_tried_again_at_once) {
  for (const Reason reason : audit::all_reasons()) {
    const bool race = reason == Reason::NodeChanged || reason == Reason::PodChanged ||
                      reason == Reason::ReadingTooOld;
    EXPECT_EQ(news(Record::Kind::Refusal, reason).empty(), race) << audit::code(reason);
  }
}

// A pod that a silent attacher kept was told of as something that had to be so.
TEST(Announcer, a_refusal_that_somebody_has_to_mend_is_a_warning) {
  for (const Reason reason :
       {Reason::AttacherSilent, Reason::DetachError, Reason::GuardFailed, Reason::GuardBroken}) {
    EXPECT_EQ(news(Record::Kind::Refusal, reason), "Warning FencingRefused Pod db/web-0 pod-1");
  }
  for (const Reason reason : {Reason::OwnNode, Reason::DriverNotDeclared, Reason::PolicyForbids}) {
    EXPECT_EQ(news(Record::Kind::Refusal, reason), "Normal FencingRefused Pod db/web-0 pod-1");
  }
}

TEST(Announcer, a_conflict_is_told_at_the_pod) {
  EXPECT_EQ(news(Record::Kind::Refusal, Reason::PolicyConflict),
            "Normal PolicyConflict Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Refusal, Reason::PolicyHolds),
            "Normal FencingRefused Pod db/web-0 pod-1");
}

TEST(Announcer, the_end_of_an_incident_is_told_when_there_is_something_to_tell) {
  EXPECT_EQ(news(Record::Kind::IncidentClosed, Reason::Settled),
            "Normal FencingSettled Node n1 node-1");
  EXPECT_EQ(news(Record::Kind::IncidentClosed, Reason::NodeReady),
            "Normal NodeRecovered Node n1 node-1");
  EXPECT_EQ(news(Record::Kind::IncidentClosed, Reason::NoPolicy),
            "Normal FencingStopped Node n1 node-1");
  EXPECT_EQ(news(Record::Kind::IncidentClosed, Reason::Unreplaced),
            "Warning ReplacementMissing Node n1 node-1");
  for (const Reason reason : {Reason::NodeGone, Reason::NodeReplaced, Reason::Stopping}) {
    EXPECT_EQ(news(Record::Kind::IncidentClosed, reason), "");
  }
}

TEST(Announcer, a_release_is_told_when_it_is_through_or_has_gone_wrong) {
  const auto told = [](Record::Kind kind, Reason reason) {
    Record record = record_of(kind, reason);
    record.action = "release_volume";
    record.attachment = "csi-1";
    const auto news = news_of(record);
    return news ? news->reason : "";
  };
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::ReleaseAcknowledged), "VolumeReleased");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::StorageWithdrawn), "StorageWithdrawn");
  for (const Reason reason : {Reason::Done, Reason::ReleaseOvertaken, Reason::OutcomeLost}) {
    EXPECT_EQ(told(Record::Kind::Outcome, reason), "");
  }
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::ControllerSilent), "");
}

TEST(Announcer, a_detach_that_takes_too_long_is_told_at_the_pod) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::ForcedDetachNear);
  record.attachment = "csi-1";
  record.pod = PodRef{.space = Namespace("db"), .name = "web-0"};
  ASSERT_TRUE(news_of(record));
  EXPECT_EQ(news_of(record)->reason, "ForcedDetachNear");
  EXPECT_EQ(news_of(record)->regarding.kind, "Pod");
}

TEST(Announcer, a_volume_that_stays_behind_is_told_at_the_node) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::VolumeLeft);
  record.attachment = "csi-1";
  ASSERT_TRUE(news_of(record));
  EXPECT_EQ(news_of(record)->reason, "VolumeHeld");
  EXPECT_EQ(news_of(record)->type, kube::EventNews::Type::Warning);
  EXPECT_EQ(news_of(record)->regarding.kind, "Node");
}

TEST(Announcer, a_detach_that_outlasts_its_policys_patience_is_told_at_the_pod) {  // row LH-12
  Record record = record_of(Record::Kind::IncidentHeld, Reason::DetachOverdue);
  record.pod = PodRef{.space = Namespace("db"), .name = "web-0"};
  record.text = "after 1m; the pod is held until they are gone";
  ASSERT_TRUE(news_of(record));
  EXPECT_EQ(news_of(record)->type, kube::EventNews::Type::Warning);
  EXPECT_EQ(news_of(record)->reason, "DetachOverdue");
  EXPECT_EQ(news_of(record)->regarding.kind, "Pod");
  EXPECT_NE(news_of(record)->note.find("the pod is held"), std::string::npos);
}

TEST(Announcer, an_incident_that_failing_policies_hold_names_them) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::StillFailing);
  record.text = "policies that fail: db, web";
  EXPECT_NE(news_of(record)->note.find("policies that fail: db, web"), std::string::npos);
}

TEST(Announcer, an_attachment_is_told_at_the_pod_that_held_it) {
  Record record = record_of(Record::Kind::Outcome, Reason::MarkedOnly);
  record.attachment = "csi-1";
  EXPECT_EQ(news_of(record)->reason, "VolumeDetaching");
  EXPECT_NE(news_of(record)->note.find("csi-1"), std::string::npos);
  record.reason = Reason::Refused;
  EXPECT_EQ(news_of(record)->reason, "DetachFailed");
  record.reason = Reason::AlreadyGone;
  EXPECT_FALSE(news_of(record));
}

TEST(Announcer, our_taint_is_told_at_the_node) {
  const auto told = [](Record::Kind kind, Reason reason, const char* action) {
    Record record = record_of(kind, reason);
    record.action = action;
    record.text = "";
    record.pod = std::nullopt;
    const auto event = news_of(record);
    return event ? event->reason + " " + event->regarding.kind : "";
  };
  EXPECT_EQ(told(Record::Kind::Intent, Reason::SetsQuarantine, "set_quarantine"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "set_quarantine"), "NodeQuarantined Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Refused, "set_quarantine"),
            "QuarantineFailed Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::NodeChanged, "set_quarantine"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "lift_quarantine"), "NodeHandedBack Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::NotProvenClean, "lift_quarantine"),
            "QuarantineKept Node");
  EXPECT_EQ(told(Record::Kind::Intent, Reason::SetsOutOfService, "taint_out_of_service"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "taint_out_of_service"),
            "NodeOutOfService Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::TaintNotServed, "taint_out_of_service"),
            "OutOfServiceFailed Node");
  EXPECT_EQ(told(Record::Kind::Intent, Reason::SwitchesOff, "switch_off"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "switch_off"), "SwitchOffAccepted Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::OutcomeLost, "switch_off"), "SwitchOffFailed Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::PolicyForbids, "switch_off"), "SwitchOffHeld Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::PowerNotOn, "switch_off"), "");
  EXPECT_EQ(told(Record::Kind::Intent, Reason::Isolates, "isolate"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "isolate"), "IsolationAccepted Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Refused, "isolate"), "IsolationFailed Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::OnHold, "isolate"), "IsolationHeld Node");
  EXPECT_EQ(told(Record::Kind::Intent, Reason::SetsSilentTaint, "taint_silent"), "");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "taint_silent"), "NodeSilent Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Refused, "taint_silent"), "SilentTaintFailed Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Done, "lift_silent_taint"), "NodeHeard Node");
  EXPECT_EQ(told(Record::Kind::Outcome, Reason::Refused, "lift_silent_taint"),
            "SilentTaintKept Node");
  EXPECT_EQ(told(Record::Kind::Refusal, Reason::OnHold, "lift_silent_taint"),
            "SilentTaintKept Node");
}

// The brake holds it, or the policies only observe: nothing that somebody has to mend, and
// Kubernetes keeps new pods off the node a moment later.
TEST(Announcer, a_silent_machine_that_is_left_alone_is_no_news) {
  for (const Reason reason : {Reason::TooManyDown, Reason::ModeObserves, Reason::KernelAnswers}) {
    Record record = record_of(Record::Kind::Refusal, reason);
    record.action = "taint_silent";
    record.pod = std::nullopt;
    EXPECT_FALSE(news_of(record)) << audit::code(reason);
  }
}

// The node was written by somebody else in between: that is no refusal, and is tried again at once.
TEST(Announcer, a_race_on_a_taint_is_no_news) {
  for (const char* action : {"set_quarantine", "lift_quarantine", "taint_out_of_service",
                             "taint_silent", "lift_silent_taint"}) {
    for (const Reason reason : {Reason::NodeChanged, Reason::ReadingTooOld}) {
      Record record = record_of(Record::Kind::Outcome, reason);
      record.action = action;
      record.pod = std::nullopt;
      EXPECT_FALSE(news_of(record)) << action;
    }
  }
  EXPECT_FALSE(news_of(record_of(Record::Kind::Refusal, Reason::ReadingTooOld)));
}

TEST(Announcer, a_taint_that_a_person_took_off_was_not_handed_back_by_us) {
  Record record = record_of(Record::Kind::Outcome, Reason::Done);
  record.action = "lift_quarantine";
  record.pod = std::nullopt;
  record.text = "somebody else had taken it off";
  EXPECT_EQ(news_of(record)->reason, "QuarantineMarkRemoved");
  EXPECT_NE(news_of(record)->note.find(record.text), std::string::npos);
}

// Its text names an incident and is never written again: a count that is raised later is its own.
TEST(Announcer, an_event_of_another_incident_or_of_another_obstacle_is_no_repeat) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::StillFailing);
  const std::string subject = news_of(record)->subject;
  EXPECT_EQ(news_of(record)->subject, subject);
  record.text = "something else";
  EXPECT_NE(news_of(record)->subject, subject);
  record = record_of(Record::Kind::IncidentOpened, Reason::NodeUnknown);
  const std::string opened = news_of(record)->subject;
  record.incident = IncidentId("i2");
  EXPECT_NE(news_of(record)->subject, opened);
}

TEST(Announcer, an_incident_belongs_to_no_policy) {
  Record record = record_of(Record::Kind::IncidentOpened, Reason::NodeUnknown);
  record.policy = "";
  EXPECT_EQ(news_of(record)->note,
            "The node is down (node_unknown); its pods are judged (incident " +
                record.incident.text() + ")");
}

TEST(Announcer, a_deletion_is_told_at_the_pod) {  // row E-28
  EXPECT_EQ(news(Record::Kind::Outcome, Reason::Done), "Normal PodForceDeleted Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Outcome, Reason::MarkedOnly),
            "Normal PodForceDeleted Pod db/web-0 pod-1");
}

TEST(Announcer, every_other_outcome_is_told_as_what_it_is) {
  EXPECT_EQ(news(Record::Kind::Outcome, Reason::AlreadyGone), "");
  EXPECT_EQ(news(Record::Kind::Outcome, Reason::Replaced), "");
  for (const Reason reason : {Reason::Refused, Reason::Retryable}) {
    EXPECT_EQ(news(Record::Kind::Outcome, reason), "Warning FencingFailed Pod db/web-0 pod-1");
  }
}

TEST(Announcer, a_lost_reply_is_told_neither_as_a_deletion_nor_as_a_failure) {
  EXPECT_EQ(news(Record::Kind::Outcome, Reason::OutcomeLost),
            "Warning FencingUncertain Pod db/web-0 pod-1");
}

TEST(Announcer, what_differs_is_told_differently) {
  std::set<std::string> notes;
  for (const Reason reason :
       {Reason::Done, Reason::MarkedOnly, Reason::Refused, Reason::OutcomeLost}) {
    const auto told = news_of(record_of(Record::Kind::Outcome, reason));
    ASSERT_TRUE(told);
    EXPECT_TRUE(notes.insert(told->note).second) << told->note;
  }
}

TEST(Announcer, a_refusal_is_told_and_observing_is_not_a_fault) {
  EXPECT_EQ(news(Record::Kind::Refusal, Reason::ModeObserves),
            "Normal WouldForceDelete Pod db/web-0 pod-1");
  EXPECT_EQ(news(Record::Kind::Refusal, Reason::NodeNotDown),
            "Normal FencingRefused Pod db/web-0 pod-1");
}

TEST(Announcer, what_is_no_deed_is_not_told) {
  EXPECT_EQ(news(Record::Kind::IncidentHeld, Reason::AwaitingTaint), "");
  EXPECT_EQ(news(Record::Kind::Verdict, Reason::PolicySkips), "");
  EXPECT_EQ(news(Record::Kind::Intent, Reason::PolicyDeletesPod), "");
}

TEST(Announcer, no_combination_is_without_an_answer_and_every_event_names_policy_and_incident) {
  for (const Record::Kind kind : kEveryKind) {
    for (const Reason reason : audit::all_reasons()) {
      if (const auto told = news_of(record_of(kind, reason))) {
        EXPECT_NE(told->note.find("policy noobaa, incident i1"), std::string::npos) << told->note;
        EXPECT_FALSE(told->action.empty());
      }
    }
  }
}

}  // namespace
}  // namespace moonfence::app
