#include "fence/act/steps.h"
#include "fence/incident/restore.h"
#include "unit/fence/volume_releaser_fixture.h"

namespace moonfence::fence {
namespace {

// A leader dies between the end of an attachment and the release of its volume; another one reads
// what it left in the incident's record (hazard H41).
struct InheritedReleaseTest : AttacherTest {
  std::string attachment;

  // Until the storage has let go. With the controller silent nothing is released.
  void lead() {
    attachment = add("web-0", "vol-1");
    open();
    tell(Look::Fell);
    controller_lease = Renewal::Unreadable;
    run_for(3s);
  }
  void leave_a_release() {
    lead();
    ASSERT_TRUE(attachments.empty());
    ASSERT_TRUE(was_refused(Reason::ControllerSilent));
    ASSERT_TRUE(step().release.has_value());
    die();
  }
  // The same while the storage takes its time: the deletion was answered, and no more is known.
  void leave_a_detachment() {
    storage_lets_go = false;
    lead();
    ASSERT_TRUE(step().sent.has_value());
    ASSERT_FALSE(step().settled());
    die();
    storage_lets_go = true;
  }
  void die() {
    incidents.reset();
    journal.reset();
    controller_lease = Renewal::GoesOn;
    story.records.clear();
  }
  void take_over() {
    start_journal("moonfence-1_b");
    incidents.emplace(surroundings(), IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
    incidents->await_records();
    journal->read(
        [this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
    tell(Look::TookOver);
    run_for(40s);
  }
  void expect_kept() const {
    EXPECT_EQ(patches(), Lines{});
    EXPECT_EQ(in_use, Lines{name_of("vol-1")});
  }
  [[nodiscard]] IncidentRecord::Step step() const {
    const IncidentRecord record = records.record("i1");
    const IncidentRecord::Step* found = record.find(Uid("va-web-0"));
    EXPECT_NE(found, nullptr);
    return found == nullptr ? IncidentRecord::Step{} : *found;
  }
  void change_step(const std::function<void(IncidentRecord::Step&)>& change) {
    IncidentRecord record = records.record("i1");
    change(*record.find(Uid("va-web-0")));
    records.maps["moonfence-incident-i1"]["data"]["record.json"] = to_text(record);
  }
};

TEST_F(InheritedReleaseTest, the_next_leader_finishes_it) {
  leave_a_release();
  take_over();
  EXPECT_EQ(released.size(), 1U);
  EXPECT_TRUE(in_use.empty());
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::ReleaseAcknowledged), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_FALSE(step().release) << "nothing is left to be done";
}

TEST_F(InheritedReleaseTest, what_the_storage_let_go_of_without_a_leader_is_released) {
  leave_a_detachment();
  lets_go(attachment);
  take_over();
  EXPECT_EQ(released.size(), 1U);
}

TEST_F(InheritedReleaseTest, what_the_storage_lets_go_of_under_the_next_leader_is_released) {
  leave_a_detachment();
  attachments[attachment]["metadata"]["finalizers"] = json::array();  // about to be gone
  take_over();
  EXPECT_EQ(patches(), Lines{});
  lets_go(attachment);
  run_for(10s);
  EXPECT_EQ(released.size(), 1U);
  EXPECT_EQ(deleted().size(), 2U) << "it had been asked to go";
}

// Whoever else deleted it may have known that the storage had not let go.
TEST_F(InheritedReleaseTest, a_deletion_that_may_never_have_left_releases_nothing) {
  leave_a_detachment();
  change_step([](IncidentRecord::Step& step) {
    step.sent.reset();
    step.ended.reset();
    step.outcome.reset();
    step.calls = 0;
  });
  lets_go(attachment);
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, a_record_of_an_older_version_releases_nothing) {
  leave_a_release();
  change_step([](IncidentRecord::Step& step) { step.release.reset(); });
  take_over();
  expect_kept();
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(InheritedReleaseTest, an_attachment_that_is_not_named_for_its_volume_releases_nothing) {
  leave_a_release();
  change_step([](IncidentRecord::Step& step) { step.handle = "vol-2"; });
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, without_the_permission_nothing_is_released) {
  leave_a_release();
  release.on = false;
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::ReleaseNotServed));
}

TEST_F(InheritedReleaseTest, another_word_of_the_policy_keeps_it) {
  leave_a_release();
  activate({binding_of(on_every_signal_with_volumes(
      "return fence.delete_pod_and_attachments('another word', { release = true })"))});
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::PolicyChanged));
}

TEST_F(InheritedReleaseTest, a_policy_that_observes_by_now_keeps_it) {
  leave_a_release();
  activate({binding_of(on_every_signal_with_volumes("return fence.delete_pod_and_attachments('its "
                                                    "node is dead', { release = true })"),
                       Mode::Observe)});
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, a_driver_that_is_no_longer_declared_keeps_it) {
  leave_a_release();
  fencing_drivers.clear();
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::DriverNotDeclared));
}

TEST_F(InheritedReleaseTest, an_attacher_that_shows_no_life_keeps_it) {
  leave_a_release();
  attacher_lease = Renewal::StandsStill;
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::AttacherSilent));
  attacher_lease = Renewal::GoesOn;
  run_for(10s);
  EXPECT_EQ(released.size(), 1U) << "it is not forgotten";
}

TEST_F(InheritedReleaseTest, an_attacher_whose_lease_cannot_be_read_keeps_it) {
  leave_a_release();
  attacher_lease = Renewal::Unreadable;
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::AttacherSilent));
}

TEST_F(InheritedReleaseTest, a_controller_that_is_still_silent_keeps_it) {
  leave_a_release();
  controller_lease = Renewal::StandsStill;
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::ControllerSilent));
}

TEST_F(InheritedReleaseTest, its_own_pod_if_it_is_there_keeps_it) {
  leave_a_release();
  add_pod("web-0");
  pods["web-0"]["metadata"]["finalizers"] = {"example.com/keep"};
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  pods["web-0"]["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::VolumeInUse));
}

TEST_F(InheritedReleaseTest, another_user_of_the_volume_keeps_it) {
  leave_a_release();
  add_pod("web-9");
  pods["web-9"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  add_volume("web-9", "n1", "vol-1");
  attachments.clear();
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::VolumeInUse));
}

TEST_F(InheritedReleaseTest, pods_that_cannot_be_listed_keep_it) {
  leave_a_release();
  list_answer_in[""] = broken();
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, a_new_attachment_of_that_name_keeps_it) {
  leave_a_release();
  add_volume("web-0", "n1", "vol-1");
  pods.clear();
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::AttachmentPresent));
}

TEST_F(InheritedReleaseTest, what_was_given_up_is_not_begun_again_by_whoever_follows) {
  leave_a_release();
  add_volume("web-0", "n1", "vol-1");
  pods.clear();
  take_over();
  ASSERT_TRUE(was_refused(Reason::AttachmentPresent));
  die();
  EXPECT_FALSE(step().release);
  // As if it had died in the middle: a closed record is of no use to anybody.
  IncidentRecord record = records.record("i1");
  record.closed.reset();
  records.maps.clear();
  records.put(record);
  attachments.clear();
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, a_node_without_its_taint_keeps_it) {
  leave_a_release();
  nodes["n1"].tainted = false;
  take_over();
  expect_kept();
}

TEST_F(InheritedReleaseTest, a_node_that_is_ready_again_keeps_it) {
  leave_a_release();
  nodes["n1"].ready = "True";
  take_over();
  const cluster::NodeView ready = view();
  incidents->review([&ready](const NodeName&) { return &ready; });
  run_for(1s);
  expect_kept();
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReady);
}

TEST_F(InheritedReleaseTest, a_node_that_booted_since_keeps_it) {
  leave_a_release();
  boot = "boot-2";
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::NodeRestarted));
}

// It was up between the two leaders, and its kubelet may have taken up the volume again.
TEST_F(InheritedReleaseTest, a_kubelet_that_was_heard_of_since_keeps_it) {
  leave_a_release();
  heartbeat = "2026-01-02T04:59:10Z";
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::StorageWithdrawn));
}

TEST_F(InheritedReleaseTest, a_kubelet_that_was_heard_of_while_the_storage_let_go_keeps_it) {
  leave_a_detachment();
  heartbeat = "2026-01-02T04:59:10Z";
  lets_go(attachment);
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::StorageWithdrawn));
}

TEST_F(InheritedReleaseTest, what_was_released_is_not_released_again) {
  controller_delay = 30s;
  attachment = add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(2s);
  ASSERT_EQ(released.size(), 1U);
  die();
  take_over();
  EXPECT_EQ(released.size(), 1U);
}

// Until it has written the record itself, a late write of the other leader may contradict it.
TEST_F(InheritedReleaseTest, it_waits_for_the_record) {
  leave_a_release();
  records.delay = 2s;
  take_over();
  EXPECT_EQ(released.size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotRecorded), 0U);
}

// What it was read from says nothing of the machine with which the incident began.
TEST_F(InheritedReleaseTest, a_node_that_booted_in_the_incident_leaves_no_release) {
  Authority authority;
  authority.boot_id = "boot-1";
  authority.reading.storage =
      std::make_shared<kube::NodeStorage>(kube::NodeStorage{.boot_id = "boot-1"});
  DeleteAttachment deletion;
  deletion.target.attachment.held_by_attacher = true;
  Detachment detachment;
  detachment.releases = true;
  EXPECT_TRUE(step_of(deletion, detachment, authority).release);
  deletion.target.attachment.held_by_attacher = false;
  EXPECT_FALSE(step_of(deletion, detachment, authority).release) << "its absence proves nothing";
  deletion.target.attachment.held_by_attacher = true;
  authority.boot_id = "boot-0";
  EXPECT_FALSE(step_of(deletion, detachment, authority).release);
  authority.reading.storage = nullptr;
  EXPECT_FALSE(step_of(deletion, detachment, authority).release);
}

// The leader that saw the boot forgets them; whoever followed it found them in the record, with the
// new boot beside them.
TEST_F(InheritedReleaseTest, attachments_from_before_a_boot_no_later_leader_takes_up) {
  leave_a_detachment();
  RecordLedger ledger(records.record("i1"), "moonfence-1_b", [] { return WallTime{}; });
  ledger.booted(boot);
  Memory same;
  restore(same, ledger.record(), Moment{});
  EXPECT_EQ(same.detachments.size(), 1U);
  ledger.booted("boot-2");
  Memory after;
  restore(after, ledger.record(), Moment{});
  EXPECT_TRUE(after.detachments.empty());
  EXPECT_TRUE(after.releases.empty());
}

TEST_F(InheritedReleaseTest, what_the_other_leader_gave_up_late_is_given_up) {
  leave_a_release();
  RecordLedger ledger(records.record("i1"), "moonfence-1_b", [] { return WallTime{}; });
  IncidentRecord theirs = ledger.record();
  theirs.find(Uid("va-web-0"))->release.reset();
  ledger.merge(theirs);
  EXPECT_FALSE(ledger.record().find(Uid("va-web-0"))->release);
}

TEST_F(InheritedReleaseTest, without_the_record_nothing_is_released) {
  leave_a_release();
  records.faults.assign(100, {.answer = broken()});
  take_over();
  expect_kept();
  EXPECT_TRUE(was_refused(Reason::NotRecorded));
}

}  // namespace
}  // namespace moonfence::fence
