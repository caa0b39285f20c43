#include "unit/fence/guard_fixture.h"

namespace moonfence::fence {
namespace {

struct ReleaseGuardTest : AttachmentGuardTest {
  ReleaseRules rules = {.on = true};
  std::shared_ptr<kube::NodeStorage> storage =
      std::make_shared<kube::NodeStorage>(kube::NodeStorage{.boot_id = "boot-1",
                                                            .attach_managed = true,
                                                            .ready_index = 0,
                                                            .ready_status = "Unknown",
                                                            .ready_heartbeat = "t"});
  ReleaseCase volume;

  ReleaseGuardTest() {
    authority.release = &rules;
    authority.boot_id = "boot-1";
    authority.reading.storage = storage;
    volume = {.attachment = target,
              .name = "kubernetes.io/csi/csi.example.com^vol-1",
              .attachment_is_gone = true,
              .controller_is_alive = true,
              .attacher_is_alive = true,
              .checked = now,
              .seen = storage};
  }
  [[nodiscard]] std::optional<Reason> refuse() const {
    return refuse_release(authority, {.policy = "test", .digest = "d1", .set = "s1"}, pod, volume,
                          now);
  }
};

TEST_F(ReleaseGuardTest, it_may_go_when_everything_fits) {
  EXPECT_EQ(refuse(), std::nullopt);
}

TEST_F(ReleaseGuardTest, only_where_the_engine_is_allowed_to) {
  rules.on = false;
  EXPECT_EQ(refuse(), Reason::ReleaseNotServed);
  authority.release = nullptr;
  EXPECT_EQ(refuse(), Reason::ReleaseNotServed);
}

TEST_F(ReleaseGuardTest, never_while_the_volume_may_be_attached) {
  volume.attachment_is_gone = false;
  EXPECT_EQ(refuse(), Reason::AttachmentPresent);
}

TEST_F(ReleaseGuardTest, whatever_speaks_against_detaching_it_speaks_against_it) {
  authority.incident_open = false;
  EXPECT_EQ(refuse(), Reason::IncidentClosed);
  authority.incident_open = true;
  volume.attachment.used_by_others = true;
  EXPECT_EQ(refuse(), Reason::VolumeInUse);
  volume.attachment = target;
  volume.attachment.attachment.held_by_attacher = false;
  EXPECT_EQ(refuse(), Reason::NotHeldByAttacher);
  volume.attachment = target;
  drivers.clear();
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
  drivers = {"csi.example.com"};
  authority.reading.readiness = Readiness::True;
  EXPECT_EQ(refuse(), Reason::NodeNotDown);
  authority.reading.readiness = Readiness::Unknown;
  authority.reading.keeps_replacements_off = false;
  EXPECT_EQ(refuse(), Reason::NotTainted);
  authority.reading.keeps_replacements_off = true;
  leadership.until = std::nullopt;
  EXPECT_EQ(refuse(), Reason::NotLeader);
}

TEST_F(ReleaseGuardTest, never_beside_kubernetes_that_detaches_from_a_node_out_of_service) {
  for (const Carried carried : {Carried::Ours, Carried::OutOfDate, Carried::Foreign}) {
    authority.reading.out_of_service = carried;
    EXPECT_EQ(refuse(), Reason::OutOfService);
  }
}

// Kubernetes still believes that it is Ready. What has no power restores no list.
TEST_F(ReleaseGuardTest, of_a_machine_that_is_off_whatever_kubernetes_believes) {
  FakePowers powers;
  powers.reading = PowerReading{
      .state = {.power = policy::Power::Off, .why = "x"}, .fencer = "bmc", .asked = now};
  authority.powers = &powers;
  policy::Binding off = binding(Mode::Enforce);
  off.allow.act_on = policy::ActOn::Off;
  off.allow.after = 12s;
  activate({off});
  authority.source = "off:12s";
  authority.reading.readiness = Readiness::Failed;
  kernels.since[authority.node] = now - 5s;
  storage->ready_status = "True";
  EXPECT_EQ(refuse(), std::nullopt);
  powers.reading->state.power = policy::Power::On;
  EXPECT_EQ(refuse(), Reason::ProofMissing);
}

// A storage system calls a node failed whose kubelet is well, and will restore its list.
TEST_F(ReleaseGuardTest, never_on_the_word_of_a_health_source) {
  storage->ready_status = "True";
  EXPECT_EQ(refuse(), Reason::NodeNotDown);
  storage->ready_status = "Unknown";
  EXPECT_EQ(refuse(), std::nullopt);
  // Nor where Kubernetes calls the node silent too: nobody asked for its Lease.
  activate({binding(Mode::Enforce, "d1",
                    "source = { every = '5s', expiry = '1h', plan = function() end, "
                    "nodes = function() return {} end },")});
  authority.source = "d1";
  authority.reading.readiness = Readiness::Failed;
  EXPECT_EQ(answer(), std::nullopt) << "its pods go";
  EXPECT_EQ(refuse(), Reason::NodeNotDown);
}

// With the object went the status that claims the volume, whatever the policy takes for down.
TEST_F(ReleaseGuardTest, of_a_deleted_node_nothing_is_released) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kubelet = true, deleted = true },")});
  EXPECT_EQ(refuse(), std::nullopt);
  authority.reading.readiness = Readiness::Gone;
  EXPECT_EQ(refuse(), Reason::NodeGone);
}

TEST_F(ReleaseGuardTest, no_policy_releases_what_a_living_kubelet_has) {
  authority.reading.readiness = Readiness::False;  // the policy acts on living kubelets
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_EQ(refuse(), Reason::LeaseAlive);
  authority.reading.kubelet_lease = KubeletLease::Unread;
  EXPECT_EQ(refuse(), Reason::LeaseUnreadable);
}

TEST_F(ReleaseGuardTest, no_policy_releases_what_a_machine_that_answers_may_write) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), std::nullopt) << "its pods go";
  EXPECT_EQ(refuse(), Reason::KernelAnswers);
  kernels.kernel = cluster::Kernel::Unsure;
  EXPECT_EQ(refuse(), Reason::KernelUnsure);
}

TEST_F(ReleaseGuardTest, everything_it_rests_on_is_at_most_a_second_old) {
  volume.checked = now - Limits{}.reading;
  EXPECT_EQ(refuse(), std::nullopt);
  volume.checked -= 1ns;
  EXPECT_EQ(refuse(), Reason::ReadingTooOld);
  volume.checked = now;
  authority.reading.sent = now - Limits{}.reading - 1ns;
  EXPECT_EQ(refuse(), Reason::ReadingTooOld);
}

TEST_F(ReleaseGuardTest, on_a_slow_server_what_was_read_before_the_node_is_older_by_its_pace) {
  leadership.granted.reading = 3s;
  volume.checked = now - 7s;
  EXPECT_EQ(refuse(), std::nullopt);
  volume.checked -= 1ns;
  EXPECT_EQ(refuse(), Reason::ReadingTooOld);
}

TEST_F(ReleaseGuardTest, the_patch_is_made_of_the_reading_that_carries_it) {
  volume.seen = std::make_shared<kube::NodeStorage>(*storage);
  EXPECT_EQ(refuse(), Reason::ReadingTooOld);
  volume.seen = authority.reading.storage = nullptr;
  EXPECT_EQ(refuse(), Reason::ReadingTooOld);
}

TEST_F(ReleaseGuardTest, another_boot_is_another_machine) {
  storage->boot_id = "boot-2";
  EXPECT_EQ(refuse(), Reason::NodeRestarted);
  storage->boot_id = "boot-1";
  authority.boot_id = std::nullopt;
  EXPECT_EQ(refuse(), Reason::NodeRestarted);
  authority.boot_id = storage->boot_id = "";
  EXPECT_EQ(refuse(), Reason::NodeRestarted);
}

TEST_F(ReleaseGuardTest, only_volumes_that_the_controller_can_detach) {
  volume.name = "";
  EXPECT_EQ(refuse(), Reason::VolumeUnfit);
  volume.name = "kubernetes.io/csi/csi.example.com^vol^1";
  EXPECT_EQ(refuse(), Reason::VolumeUnfit);
  volume.name = "kubernetes.io/csi/csi.example.com^vol-1";
  storage->attach_managed = false;
  EXPECT_EQ(refuse(), Reason::VolumeUnfit);
  storage->attach_managed = true;
  volume.attachment.before_pod = true;
  EXPECT_EQ(refuse(), Reason::VolumeUnfit);
}

TEST_F(ReleaseGuardTest, what_the_patch_could_not_test_forbids_it) {
  storage->ready_heartbeat = "";
  EXPECT_EQ(refuse(), Reason::ReadyMissing);
  storage->ready_heartbeat = "t";
  storage->ready_index = std::nullopt;
  EXPECT_EQ(refuse(), Reason::ReadyMissing);
}

// Its attachment may have been on its way before we came; then its pod stands there.
TEST_F(ReleaseGuardTest, what_no_record_names_is_not_released) {
  volume.attachment.attachment.uid = Uid("va-2");
  EXPECT_EQ(refuse(), std::nullopt);
  pod.uid = Uid("pod-2");
  EXPECT_EQ(refuse(), Reason::NotRecorded);
}

TEST_F(ReleaseGuardTest, nobody_would_act_on_it_without_the_controller) {
  volume.controller_is_alive = false;
  EXPECT_EQ(refuse(), Reason::ControllerSilent);
}

TEST_F(ReleaseGuardTest, nobody_would_attach_it_elsewhere_without_the_attacher) {
  volume.attacher_is_alive = false;
  EXPECT_EQ(refuse(), Reason::AttacherSilent);
}

struct CarriedReleaseTest : ReleaseGuardTest {
  CarriedReleaseTest() {
    volume.carried = true;
    want(IncidentRecord::Step::Release{.boot_id = "boot-1", .heartbeat = "t"});
  }
  void want(std::optional<IncidentRecord::Step::Release> release) {
    IncidentRecord::Step step = *authority.ledger->record().find(Uid("va-1"));
    step.release = std::move(release);
    authority.ledger->plan(std::move(step));
  }
};

TEST_F(CarriedReleaseTest, it_may_go_when_nobody_heard_of_the_node_since) {
  EXPECT_EQ(refuse(), std::nullopt);
}

TEST_F(CarriedReleaseTest, only_what_stands_in_the_record_is_carried) {
  want(std::nullopt);
  EXPECT_EQ(refuse(), Reason::NotRecorded);
  volume.attachment.attachment.uid = Uid("va-2");  // although its pod stands there
  EXPECT_EQ(refuse(), Reason::NotRecorded);
}

TEST_F(CarriedReleaseTest, another_boot_than_then_is_another_machine) {
  authority.boot_id = storage->boot_id = "boot-2";
  EXPECT_EQ(refuse(), Reason::NodeRestarted);
  want(IncidentRecord::Step::Release{.boot_id = "", .heartbeat = "t"});
  EXPECT_EQ(refuse(), Reason::NodeRestarted);
}

TEST_F(CarriedReleaseTest, a_kubelet_that_was_heard_of_since_was_alive) {
  storage->ready_heartbeat = "t2";
  EXPECT_EQ(refuse(), Reason::StorageWithdrawn);
  want(IncidentRecord::Step::Release{.boot_id = "boot-1", .heartbeat = ""});
  EXPECT_EQ(refuse(), Reason::StorageWithdrawn);
}

}  // namespace
}  // namespace moonfence::fence
