#include "policy/input/pod_facts.h"
#include "unit/fence/guard_fixture.h"

namespace moonfence::fence {
namespace {

TEST_F(GuardTest, everything_in_order_passes) {
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, a_closed_incident_may_do_nothing) {
  authority.incident_open = false;
  EXPECT_EQ(answer(), Reason::IncidentClosed);
}

TEST_F(GuardTest, only_the_leader_acts_and_only_if_it_still_is_when_the_call_ends) {
  leadership.until = now + Limits{}.action_span();
  EXPECT_EQ(answer(), std::nullopt);
  leadership.until = now + Limits{}.action_span() - 1ns;
  EXPECT_EQ(answer(), Reason::NotLeader);
  leadership.until = std::nullopt;
  EXPECT_EQ(answer(), Reason::NotLeader);
  authority.leadership = nullptr;
  EXPECT_EQ(answer(), Reason::NotLeader);
}

TEST_F(GuardTest, observing_never_acts) {
  in_force(Mode::Observe);
  EXPECT_EQ(answer(), Reason::ModeObserves);
}

TEST_F(GuardTest, what_is_not_in_force_any_more_never_acts) {
  activate({});
  EXPECT_EQ(answer(), Reason::PolicyChanged);
  activate({binding(Mode::Enforce, "d2")});  // another text, or other settings
  EXPECT_EQ(answer(), Reason::PolicyChanged);
  policy::Binding other = binding(Mode::Enforce);
  other.name = "other";
  activate({other});
  EXPECT_EQ(answer(), Reason::PolicyChanged);
  policy::Binding broken = binding(Mode::Enforce);
  broken.policy = nullptr;
  activate({broken});
  EXPECT_EQ(answer(), Reason::PolicyChanged);
  authority.active = nullptr;
  EXPECT_EQ(answer(), Reason::PolicyChanged);
}

TEST_F(GuardTest, what_was_judged_by_another_set_never_acts) {
  activate({binding(Mode::Enforce)}, "s2");  // it stands in both; others may not
  EXPECT_EQ(answer(), Reason::PolicyChanged);
}

TEST_F(GuardTest, of_two_bindings_of_a_policy_the_one_that_goes_further_counts) {
  activate({binding(Mode::Observe), binding(Mode::Enforce), binding(Mode::Observe)});
  EXPECT_EQ(answer(), std::nullopt);
  policy::Binding elsewhere = binding(Mode::Enforce);
  elsewhere.scope = policy::NamespaceScope::of({Namespace("shop")});
  activate({binding(Mode::Observe), elsewhere});
  EXPECT_EQ(answer(), Reason::ModeObserves);
}

TEST_F(GuardTest, of_two_bindings_of_a_policy_one_that_permits_it_is_enough) {
  pod.owners.clear();
  policy::Binding allowing = binding(Mode::Enforce);
  allowing.allow.bare_pods = true;
  activate({binding(Mode::Enforce), allowing});
  EXPECT_EQ(answer(), std::nullopt);
  activate({allowing, binding(Mode::Enforce)});
  EXPECT_EQ(answer(), std::nullopt);
  allowing.mode = Mode::Observe;  // neither alone permits it
  activate({allowing, binding(Mode::Enforce)});
  EXPECT_EQ(answer(), Reason::BarePod);
}

TEST_F(GuardTest, a_binding_that_goes_by_another_word_is_out_of_reach) {
  authority.source = "storage";  // opened the incident, and the binding goes by Kubernetes
  EXPECT_EQ(answer(), Reason::SignalUnfit);
}

// A link that was mended between the reading and the deletion: the pods lived.
TEST_F(GuardTest, a_lost_node_that_is_heard_again_is_out_of_reach_at_once) {
  policy::Binding lost = binding(Mode::Enforce);
  lost.allow.act_on = policy::ActOn::Lost;
  lost.allow.after = std::chrono::seconds(12);
  activate({lost});
  authority.source = "lost:12s";
  pod.owners = {{.api_version = "apps/v1",
                 .kind = "ReplicaSet",
                 .name = "web",
                 .uid = Uid("rs"),
                 .controller = true}};
  pod.raw = std::make_shared<const nlohmann::json>(nlohmann::json::object());
  kernels.kernel = cluster::Kernel::Silent;
  EXPECT_EQ(answer(), std::nullopt);
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), Reason::KernelAnswers);
  for (const cluster::Kernel kernel : {cluster::Kernel::Unsure, cluster::Kernel::NotObservable}) {
    kernels.kernel = kernel;
    EXPECT_EQ(answer(), Reason::KernelUnsure);
  }
}

struct OffGuardTest : GuardTest {
  FakePowers powers;
  OffGuardTest() {
    policy::Binding off = binding(Mode::Enforce);
    off.allow.act_on = policy::ActOn::Off;
    off.allow.after = 12s;
    activate({off});
    authority.source = "off:12s";
    authority.powers = &powers;
    kernels.since[authority.node] = now - 5s;
    powers.reading = PowerReading{
        .state = {.power = policy::Power::Off, .why = "x"}, .fencer = "bmc", .asked = now - 1s};
  }
};

TEST_F(OffGuardTest, what_a_binding_with_act_on_off_deletes_is_proven_to_be_off_and_not_heard) {
  EXPECT_EQ(answer(), std::nullopt);
  for (const policy::Power other :
       {policy::Power::On, policy::Power::Unknown, policy::Power::Failed}) {
    powers.reading->state.power = other;
    EXPECT_EQ(answer(), Reason::ProofMissing);
  }
  powers.reading->state.power = policy::Power::Off;
  powers.reading->asked = now - 6s;  // it was heard since
  EXPECT_EQ(answer(), Reason::ProofMissing);
  powers.reading.reset();
  EXPECT_EQ(answer(), Reason::ProofMissing);
  authority.powers = nullptr;
  EXPECT_EQ(answer(), Reason::ProofMissing);
}

TEST_F(OffGuardTest, whoever_is_heard_at_the_wire_is_out_of_reach) {
  kernels.since.clear();
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), Reason::KernelAnswers);
  for (const cluster::Kernel kernel : {cluster::Kernel::Unsure, cluster::Kernel::NotObservable}) {
    kernels.kernel = kernel;
    EXPECT_EQ(answer(), Reason::KernelUnsure);
  }
}

TEST_F(OffGuardTest, where_no_fencer_is_asked_it_deletes_nothing) {
  policy::Binding own = binding(Mode::Enforce, "d1",
                                "source = { every = '5s', expiry = '1h', plan = function() end, "
                                "nodes = function() return {} end },");
  own.allow.act_on = policy::ActOn::Off;
  own.allow.after = 12s;
  activate({own});
  authority.source = "d1";
  authority.reading.readiness = Readiness::Failed;
  EXPECT_EQ(answer(), Reason::ProofMissing);
}

// Its incident is nobody else's.
TEST_F(OffGuardTest, a_binding_that_goes_by_kubernetes_word_does_nothing_by_it) {
  in_force(Mode::Enforce);
  EXPECT_EQ(answer(), Reason::SignalUnfit);
}

TEST_F(GuardTest, a_living_kubelet_is_out_of_reach_for_a_policy_that_wants_silence) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kubelet = false },")});
  EXPECT_EQ(answer(), std::nullopt);
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    authority.reading.readiness = readiness;
    for (const KubeletLease kubelet_lease : {KubeletLease::Alive, KubeletLease::Unread}) {
      authority.reading.kubelet_lease = kubelet_lease;
      EXPECT_EQ(answer(), Reason::SignalUnfit);
    }
    authority.reading.kubelet_lease = KubeletLease::Dead;
    EXPECT_EQ(answer(), std::nullopt);
  }
}

TEST_F(GuardTest, a_living_kubelet_that_says_no_is_for_those_that_act_on_it) {
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    authority.reading.readiness = readiness;
    for (const KubeletLease kubelet_lease :
         {KubeletLease::Alive, KubeletLease::Unread, KubeletLease::Dead}) {
      authority.reading.kubelet_lease = kubelet_lease;
      EXPECT_EQ(answer(), std::nullopt);
    }
  }
}

TEST_F(GuardTest, unknown_is_nothing_to_anybody_without_a_dead_lease) {
  for (const char* trigger : {"live_kubelet = true", "live_kubelet = false"}) {
    activate({binding(Mode::Enforce, "d1", "trigger = { " + std::string(trigger) + " },")});
    authority.reading.kubelet_lease = KubeletLease::Alive;
    EXPECT_EQ(answer(), Reason::LeaseAlive);
    authority.reading.kubelet_lease = KubeletLease::Unread;
    EXPECT_EQ(answer(), Reason::LeaseUnreadable);
    authority.reading.kubelet_lease = Reading().kubelet_lease;  // nobody has looked
    EXPECT_EQ(answer(), Reason::LeaseUnreadable);
    authority.reading.kubelet_lease = KubeletLease::Dead;
    EXPECT_EQ(answer(), std::nullopt);
  }
}

TEST_F(GuardTest, a_machine_that_answers_is_out_of_reach_although_its_kubelet_is_dead) {
  for (const Readiness readiness : {Readiness::Unknown, Readiness::False, Readiness::Missing}) {
    authority.reading.readiness = readiness;
    kernels.kernel = cluster::Kernel::Answers;
    EXPECT_EQ(answer(), Reason::KernelAnswers);
    kernels.kernel = cluster::Kernel::Unsure;
    EXPECT_EQ(answer(), Reason::KernelUnsure);
    kernels.kernel = cluster::Kernel::Silent;
    EXPECT_EQ(answer(), std::nullopt);
    kernels.kernel = cluster::Kernel::NotObservable;
    EXPECT_EQ(answer(), std::nullopt);
  }
  authority.kernels = nullptr;
  EXPECT_EQ(answer(), std::nullopt);
}

// It is asked at the wire: since the reading the machine may have come back.
TEST_F(GuardTest, what_the_reading_said_of_the_machine_is_too_old_for_the_guard) {
  authority.reading.kernel = cluster::Kernel::Silent;
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), Reason::KernelAnswers);
}

TEST_F(GuardTest, a_policy_may_say_that_a_dead_kubelet_is_enough) {
  kernels.kernel = cluster::Kernel::Answers;
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  EXPECT_EQ(answer(), std::nullopt);
  // That is nothing to a kubelet that lives.
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_EQ(answer(), Reason::LeaseAlive);
  authority.reading.readiness = Readiness::False;
  EXPECT_EQ(answer(), Reason::SignalUnfit);
}

// A kubelet that says itself that its node is not Ready speaks from a machine that answers.
TEST_F(GuardTest, whoever_acts_on_living_kubelets_acts_on_machines_that_answer) {
  kernels.kernel = cluster::Kernel::Answers;
  authority.reading.readiness = Readiness::False;
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, of_a_node_without_an_object_no_machine_is_asked) {
  kernels.kernel = cluster::Kernel::Answers;  // whoever has its address now
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kubelet = true, deleted = true },")});
  authority.reading.readiness = Readiness::Gone;
  EXPECT_EQ(answer(), std::nullopt);
}

// Row LH-22.
TEST_F(GuardTest, a_deleted_node_is_for_policies_that_say_so) {
  authority.reading.readiness = Readiness::Gone;
  EXPECT_EQ(answer(), Reason::SignalUnfit);
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kubelet = true, deleted = true },")});
  EXPECT_EQ(answer(), std::nullopt);
  for (const Quarantine quarantine : {Quarantine::Missing, Quarantine::Always}) {
    authority.quarantine = quarantine;  // there is nothing to taint
    EXPECT_FALSE(needs_quarantine(authority));
    EXPECT_EQ(
        refuse_quarantine(authority, {.policy = "test", .digest = "d1", .set = "s1"}, pod, now),
        Reason::NodeGone);
  }
  authority.reading.uid = Uid("node-2");
  EXPECT_EQ(answer(), Reason::NodeReplaced);
}

TEST_F(GuardTest, of_a_machine_with_a_successor_only_what_was_bound_before_it) {
  authority.reading.successor = WallTime{} + 100h;
  EXPECT_EQ(answer(), Reason::NodeReplaced);  // nobody knows when it was bound
  pod.bound = WallTime{} + 101h;
  EXPECT_EQ(answer(), Reason::NodeReplaced);
  pod.bound = WallTime{} + 99h;
  EXPECT_EQ(answer(), std::nullopt);
  authority.quarantine = Quarantine::Always;
  EXPECT_FALSE(needs_quarantine(authority));  // it would be the successor's taint
}

TEST_F(GuardTest, on_a_deleted_node_the_kubelet_is_as_silent_as_the_policy_wants) {
  authority.reading.readiness = Readiness::Gone;
  activate({binding(Mode::Enforce, "d1", "trigger = { deleted = true },")});
  EXPECT_EQ(answer(), std::nullopt);
  for (const KubeletLease kubelet_lease : {KubeletLease::Alive, KubeletLease::Unread}) {
    authority.reading.kubelet_lease = kubelet_lease;
    EXPECT_EQ(answer(), Reason::SignalUnfit);
  }
}

TEST_F(GuardTest, an_old_404_carries_nothing) {
  authority.reading.readiness = Readiness::Gone;
  activate({binding(Mode::Enforce, "d1", "trigger = { deleted = true },")});
  authority.reading.sent = now - 1s - 1ms;
  EXPECT_EQ(answer(), Reason::ReadingTooOld);
}

// Since the 404 a machine may have taken the name, and the pod may be bound to it.
TEST_F(GuardTest, a_404_carries_nothing_that_was_listed_after_it) {
  authority.reading.readiness = Readiness::Gone;
  activate({binding(Mode::Enforce, "d1", "trigger = { deleted = true },")});
  judged = now + 1ns;
  EXPECT_EQ(answer(), Reason::ReadingTooOld);
  judged = now;
  EXPECT_EQ(answer(), std::nullopt);
  authority.reading.readiness = Readiness::Unknown;  // by the Node's UID it is ours
  judged = now + 1ns;
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, an_empty_uid_is_no_precondition) {
  pod.uid = Uid();
  EXPECT_EQ(answer(), Reason::NoUid);
}

// The process may die at any instant: whoever comes after us must know of it.
TEST_F(GuardTest, what_no_record_names_is_not_deleted) {
  pod.uid = Uid("pod-2");
  EXPECT_EQ(answer(), Reason::NotRecorded);
  authority.ledger = nullptr;
  pod.uid = Uid("pod-1");
  EXPECT_EQ(answer(), Reason::NotRecorded);
}

TEST_F(GuardTest, a_pod_of_another_node_is_out_of_reach) {
  pod.node = NodeName("n2");
  EXPECT_EQ(answer(), Reason::WrongNode);
}

TEST_F(GuardTest, a_pod_outside_the_binding_is_out_of_reach) {
  pod.ref.space = Namespace("other");
  EXPECT_EQ(answer(), Reason::OutsideBinding);
  pod.ref.space = Namespace();
  EXPECT_EQ(answer(), Reason::OutsideBinding);
  policy::Binding everywhere = binding(Mode::Enforce);
  everywhere.scope = policy::NamespaceScope::everywhere();
  activate({everywhere});
  EXPECT_EQ(answer(), Reason::OutsideBinding);  // no namespace is none of them
}

TEST_F(GuardTest, pods_that_nothing_replaces_are_left_alone_unless_the_binding_allows_them) {
  pod.owners.clear();
  EXPECT_EQ(answer(), Reason::BarePod);
  policy::Binding allowing = binding(Mode::Enforce);
  allowing.allow.bare_pods = true;
  activate({allowing});
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, a_node_that_came_back_is_safe) {
  authority.reading.readiness = Readiness::True;
  EXPECT_EQ(answer(), Reason::NodeNotDown);
}

TEST_F(GuardTest, a_recreated_node_is_another_node) {
  authority.reading.uid = Uid("node-2");
  EXPECT_EQ(answer(), Reason::NodeReplaced);
}

TEST_F(GuardTest, without_the_taint_the_replacement_would_land_on_the_dead_node) {
  authority.reading.keeps_replacements_off = false;
  EXPECT_EQ(answer(), Reason::NotTainted);
}

TEST_F(GuardTest, where_our_taint_is_demanded_no_other_will_do) {
  authority.quarantine = Quarantine::Always;
  for (const Carried carried : {Carried::Nothing, Carried::MarkOnly, Carried::OutOfDate}) {
    authority.reading.own_taint = carried;
    EXPECT_EQ(answer(), Reason::NotTainted);
  }
  for (const Carried carried : {Carried::Ours, Carried::Foreign}) {
    authority.reading.own_taint = carried;
    EXPECT_EQ(answer(), std::nullopt);
  }
  authority.quarantine = Quarantine::Missing;
  authority.reading.own_taint = Carried::Nothing;
  EXPECT_EQ(answer(), std::nullopt);
  authority.reading.own_taint = Carried::OutOfDate;
  EXPECT_EQ(answer(), Reason::NotTainted);
}

TEST_F(GuardTest, no_taint_is_set_unless_the_setting_says_so) {
  authority.reading.keeps_replacements_off = false;
  const auto refused = [this] {
    return refuse_quarantine(authority, {.policy = "test", .digest = "d1", .set = "s1"}, pod, now);
  };
  EXPECT_EQ(refused(), Reason::NotTainted);
  authority.quarantine = Quarantine::Missing;
  EXPECT_EQ(refused(), std::nullopt);
  authority.incident_open = false;
  EXPECT_EQ(refused(), Reason::IncidentClosed) << "as the deletion that waits for it";
}

TEST_F(GuardTest, a_lift_needs_the_lease_a_fresh_reading_and_a_node_that_did_not_change) {
  Lift lift;
  lift.node_uid = Uid("node-1");
  lift.read = now;
  lift.leadership = authority.leadership;
  EXPECT_EQ(refuse_lift(lift, now + 1s), std::nullopt);
  EXPECT_EQ(refuse_lift(lift, now + 1s + 1ns), Reason::ReadingTooOld);
  lift.wanted = false;
  EXPECT_EQ(refuse_lift(lift, now), Reason::NodeChanged);
  lift.wanted = true;
  lift.node_uid = Uid();
  EXPECT_EQ(refuse_lift(lift, now), Reason::NoUid);
  lift.node_uid = Uid("node-1");
  lift.hold = "disks are being changed";
  EXPECT_EQ(refuse_lift(lift, now), Reason::OnHold);
  lift.leadership = nullptr;
  EXPECT_EQ(refuse_lift(lift, now), Reason::NotLeader);
}

TEST_F(GuardTest, new_pods_are_kept_off_a_silent_machine_by_what_allows_a_deletion) {
  authority.incident_open = false;
  kernels.kernel = cluster::Kernel::Silent;
  Silence silence;
  const auto refused = [&] { return refuse_silent_taint(authority, silence, now); };
  EXPECT_EQ(refused(), std::nullopt);
  silence.wanted = false;
  EXPECT_EQ(refused(), Reason::NodeChanged);
  silence.wanted = true;
  authority.leadership = nullptr;
  EXPECT_EQ(refused(), Reason::NotLeader);
  authority.leadership = &leadership;
  authority.node_uid = Uid();
  EXPECT_EQ(refused(), Reason::NoUid);
  authority.node_uid = Uid("node-1");
  protections.own_node = authority.node;
  EXPECT_EQ(refused(), Reason::OwnNode);
  protections.own_node = NodeName();
  authority.reading.hold = "disks are being changed";
  EXPECT_EQ(refused(), Reason::OnHold);
  authority.reading.hold.reset();
  now += 1s;
  EXPECT_EQ(refused(), std::nullopt);
  now += 1ns;
  EXPECT_EQ(refused(), Reason::ReadingTooOld);
  now = authority.reading.sent;
  in_force(Mode::Observe);
  EXPECT_EQ(refused(), Reason::ModeObserves);
  in_force(Mode::Enforce);
  authority.doubt = nullptr;
  EXPECT_EQ(refused(), Reason::DoubtsItself);
  authority.doubt = &doubt;
  EXPECT_EQ(refused(), std::nullopt);
  count_nodes(10, 6);
  EXPECT_EQ(refused(), Reason::TooManyDown);
}

TEST_F(GuardTest, only_a_machine_that_is_silent_now_is_tainted_for_it) {
  const auto refused = [&] { return refuse_silent_taint(authority, Silence{}, now); };
  for (const auto kernel : {cluster::Kernel::Unsure, cluster::Kernel::NotObservable}) {
    kernels.kernel = kernel;
    EXPECT_EQ(refused(), Reason::KernelUnsure);
  }
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(refused(), Reason::KernelAnswers);
  kernels.kernel = cluster::Kernel::Silent;
  EXPECT_EQ(refused(), std::nullopt);
  kernels.confirms = false;
  EXPECT_EQ(refused(), Reason::KernelUnsure) << "one replica's word is not enough";
  authority.kernels = nullptr;
  EXPECT_EQ(refused(), Reason::KernelUnsure);
}

TEST_F(GuardTest, a_reading_carries_deletions_for_one_second) {
  now = authority.reading.sent + 1s;
  EXPECT_EQ(answer(), std::nullopt);
  now += 1ns;
  EXPECT_EQ(answer(), Reason::ReadingTooOld);
}

TEST_F(GuardTest, the_brake_is_asked_each_time) {
  count_nodes(10, 6);
  EXPECT_EQ(answer(), Reason::TooManyDown);
  in_force(Mode::Observe);  // nothing would have been done anyway
  EXPECT_EQ(answer(), Reason::ModeObserves);
  in_force(Mode::Enforce);
  count_nodes(10, 5);
  now += 10s;
  (void)doubt.look({}, now - 1s);
  (void)doubt.look({.node_lists = 1}, now);
  authority.reading.sent = now;
  hear_namespace();
  EXPECT_EQ(answer(), std::nullopt);
  authority.brake = nullptr;
  EXPECT_EQ(answer(), Reason::TooManyDown);
}

TEST_F(GuardTest, while_we_doubt_ourselves_nothing_may) {
  now += 5s;
  authority.reading.sent = now;
  EXPECT_EQ(answer(), std::nullopt);
  now += 1ns;  // stopped for longer than that
  authority.reading.sent = now;
  EXPECT_EQ(answer(), Reason::DoubtsItself);
  authority.doubt = nullptr;
  now -= 1ns;
  EXPECT_EQ(answer(), Reason::DoubtsItself);
}

TEST_F(GuardTest, behind_as_many_nodes_as_may_be_fenced_at_once_nothing_may) {
  std::vector<Brake::Place> places;
  for (const char* name : {"n2", "n3", "n4", "n5", "n6"}) {
    places.push_back(brake.begin({.node = NodeName(name), .zone = {}}));
  }
  EXPECT_EQ(answer(), Reason::TooManyAtOnce);
}

TEST_F(GuardTest, a_protected_namespace_is_out_of_every_policy_s_reach) {
  protections.namespaces = {Namespace("db")};
  EXPECT_EQ(answer(), Reason::ProtectedNamespace);
  protections.namespaces = {Namespace("kube-system")};
  EXPECT_EQ(answer(), std::nullopt);
  authority.protections = nullptr;
  EXPECT_EQ(answer(), Reason::ProtectedNamespace);
}

TEST_F(GuardTest, the_node_on_which_we_run_is_not_dead) {
  protections.own_node = NodeName("n1");
  EXPECT_EQ(answer(), Reason::OwnNode);
  protections.own_node = NodeName("n2");
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, an_authority_that_was_never_filled_in_permits_nothing) {
  authority = Authority{};
  EXPECT_NE(answer(), std::nullopt);
}

TEST_F(AttachmentGuardTest, it_may_go_when_everything_fits) {
  EXPECT_EQ(refuse(), std::nullopt);
}

TEST_F(AttachmentGuardTest, whatever_speaks_against_its_pod_speaks_against_it) {
  authority.incident_open = false;
  EXPECT_EQ(refuse(), Reason::IncidentClosed);
  authority.incident_open = true;
  authority.reading.readiness = Readiness::True;
  EXPECT_EQ(refuse(), Reason::NodeNotDown);
  authority.reading.readiness = Readiness::Unknown;
  in_force(Mode::Observe);
  EXPECT_EQ(refuse(), Reason::ModeObserves);
}

TEST_F(AttachmentGuardTest, it_may_be_the_successor_s_by_now) {
  authority.reading.successor = WallTime{} + 100h;
  pod.bound = WallTime{} + 99h;
  EXPECT_EQ(refuse(), Reason::NodeReplaced);
}

TEST_F(AttachmentGuardTest, it_must_be_the_one_that_was_judged) {
  const AttachmentCase fits = target;
  target.attachment.uid = Uid();
  EXPECT_EQ(refuse(), Reason::NoUid);
  target = fits;
  target.attachment.node = NodeName("n2");
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
  target = fits;
  target.attachment.attacher = "other.example.com";
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
  target = fits;
  target.attachment.volume = "pv-2";
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
  target.handle = "h1";  // of which the attachment's name is not made
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
  target.volume = target.attachment.volume = "";  // an inline volume has no name to compare
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
}

// Two PersistentVolumes may name one disk, and the attachment bears the name of either.
TEST_F(AttachmentGuardTest, it_may_bear_the_name_of_another_volume_of_the_same_disk) {
  target.handle = "h1";
  target.attachment.name = policy::attachment_name("h1", "csi.example.com", "n1");
  target.attachment.volume = "pv-2";
  EXPECT_EQ(refuse(), std::nullopt);
  const AttachmentCase fits = target;
  target.attachment.attacher = "other.example.com";
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
  target = fits;
  target.attachment.name = policy::attachment_name("h1", "csi.example.com", "n2");
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
}

TEST_F(AttachmentGuardTest, only_drivers_that_fence_are_detached) {
  drivers.clear();
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
  authority.fencing_drivers = nullptr;
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
}

TEST_F(AttachmentGuardTest, what_has_no_power_writes_to_no_storage_whatever_the_driver) {
  drivers.clear();
  FakePowers powers;
  authority.powers = &powers;
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
  powers.reading = PowerReading{.state = {.power = policy::Power::On, .why = "x"}, .fencer = "bmc"};
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
  powers.reading->state.power = policy::Power::Off;
  EXPECT_EQ(refuse(), std::nullopt);
  kernels.kernel = cluster::Kernel::Unsure;
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
}

TEST_F(AttachmentGuardTest, what_others_use_or_nobody_holds_stays) {
  target.used_by_others = true;
  EXPECT_EQ(refuse(), Reason::VolumeInUse);
  target.used_by_others = false;
  target.attachment.held_by_attacher = false;
  EXPECT_EQ(refuse(), Reason::NotHeldByAttacher);
}

TEST_F(AttachmentGuardTest, what_no_record_names_stays) {
  target.attachment.uid = Uid("va-2");
  EXPECT_EQ(refuse(), Reason::NotRecorded);
}

TEST_F(AttachmentGuardTest, before_its_pod_only_when_the_pod_is_being_deleted) {
  target.before_pod = true;
  EXPECT_EQ(refuse(), Reason::PodNotTerminating);
  pod.deletion_timestamp = WallTime(1767330000s);
  EXPECT_EQ(refuse(), std::nullopt);
}

// Attested where a person's word is there, and nothing is heard.
struct ProofGuardTest : GuardTest {
  policy::EvidenceSet word;
  policy::ProofDemands demanded;
  KnownDrivers drivers;

  ProofGuardTest() {
    word.insert(policy::Evidence::Attested);
    demanded = {word};
    authority.reading.attestation.counted = Attestation{};
  }
  [[nodiscard]] std::optional<Reason> proven() const {
    return refuse_pod_deletion(authority,
                               {.policy = "test",
                                .digest = "d1",
                                .set = "s1",
                                .judged = judged,
                                .proof = &demanded,
                                .drivers = &drivers},
                               pod, now);
  }
};

TEST_F(ProofGuardTest, without_what_is_demanded_nothing_is_deleted) {
  EXPECT_EQ(proven(), std::nullopt);
  authority.reading.attestation.counted.reset();
  EXPECT_EQ(proven(), Reason::ProofMissing);
  EXPECT_EQ(answer(), std::nullopt);  // nothing is demanded there
}

TEST_F(ProofGuardTest, what_the_configuration_demands_is_demanded_of_everybody) {
  demanded.clear();
  authority.reading.attestation.counted.reset();
  protections.proof.everywhere = word;
  EXPECT_EQ(proven(), Reason::ProofMissing);
  EXPECT_EQ(answer(), Reason::ProofMissing);
  protections.proof = {.namespaces = {{Namespace("db"), word}}};
  EXPECT_EQ(answer(), Reason::ProofMissing);
  protections.proof = {.namespaces = {{Namespace("web"), word}}};
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(ProofGuardTest, by_driver_it_is_demanded_of_whose_drivers_are_not_known) {
  demanded.clear();
  authority.reading.attestation.counted.reset();
  protections.proof.drivers = {{"csi.example.com", word}};
  EXPECT_EQ(proven(), Reason::ProofMissing);
  drivers = std::set<std::string>{"csi.example.com"};
  EXPECT_EQ(proven(), Reason::ProofMissing);
  drivers = std::set<std::string>{"other"};
  EXPECT_EQ(proven(), std::nullopt);
}

TEST_F(ProofGuardTest, a_machine_that_is_heard_at_the_wire_makes_a_word_void) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  EXPECT_EQ(proven(), std::nullopt);
  for (const cluster::Kernel kernel : {cluster::Kernel::Answers, cluster::Kernel::Unsure}) {
    kernels.kernel = kernel;
    EXPECT_EQ(proven(), Reason::ProofMissing);
  }
}

TEST_F(ProofGuardTest, silence_is_proof_when_both_replicas_know_it) {
  demanded = {policy::EvidenceSet()};
  demanded.front().insert(policy::Evidence::Silent);
  EXPECT_EQ(proven(), Reason::ProofMissing);
  kernels.since[authority.node] = now - 5s;
  EXPECT_EQ(proven(), std::nullopt);
  kernels.confirms = false;
  EXPECT_EQ(proven(), Reason::ProofMissing);
  authority.kernels = nullptr;
  EXPECT_EQ(proven(), Reason::ProofMissing);
}

TEST_F(ProofGuardTest, off_is_what_a_fencer_has_read_of_a_machine_that_is_not_heard) {
  demanded = {policy::EvidenceSet()};
  demanded.front().insert(policy::Evidence::Off);
  EXPECT_EQ(proven(), Reason::ProofMissing);
  FakePowers powers;
  authority.powers = &powers;
  EXPECT_EQ(proven(), Reason::ProofMissing);
  EXPECT_NE(missing_proof(authority, {.proof = &demanded}, pod).find("bmc: no answer"),
            std::string::npos);
  for (const policy::Power power :
       {policy::Power::On, policy::Power::Unknown, policy::Power::Failed}) {
    powers.reading = PowerReading{.state = {.power = power, .why = "x"}, .fencer = "bmc"};
    EXPECT_EQ(proven(), Reason::ProofMissing);
  }
  powers.reading->state.power = policy::Power::Off;
  EXPECT_EQ(proven(), std::nullopt);
  // It was heard after its BMC was asked.
  powers.reading->asked = now - 5s;
  kernels.since[authority.node] = now - 4s;
  EXPECT_EQ(proven(), Reason::ProofMissing);
  kernels.since[authority.node] = now - 6s;
  EXPECT_EQ(proven(), std::nullopt);
  kernels.since.clear();
  // A kubelet that renews its Lease has a machine with power, whatever its BMC says.
  authority.reading.readiness = Readiness::False;
  authority.reading.kubelet_lease = KubeletLease::Alive;
  EXPECT_EQ(proven(), Reason::ProofMissing);
  authority.reading.readiness = Readiness::Unknown;
  authority.reading.kubelet_lease = KubeletLease::Dead;
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(proven(), Reason::ProofMissing);
}

struct OrderGuardTest : GuardTest {
  FakePowers powers;
  OrderCase target = {.order = {.request = {.kind = policy::Request::Kind::Post,
                                            .endpoint = "bmc",
                                            .path = "/off",
                                            .body = "{}"},
                                .aim = {.power = policy::Power::Off}},
                      .fencer = "redfish",
                      .complete = true};
  std::shared_ptr<std::vector<kube::Pod>> pods = std::make_shared<std::vector<kube::Pod>>();
  policy::ProofDemands demands = {policy::EvidenceSet()};

  OrderGuardTest() {
    demands.front().insert(policy::Evidence::Off);
    pods->push_back(pod);
    target.pods = pods;
    target.listed = now;
    authority.powers = &powers;
    powers.reading = PowerReading{.state = {.power = policy::Power::On, .why = "x"},
                                  .fencer = "redfish",
                                  .order = target.order};
  }
  [[nodiscard]] std::optional<Reason> answer() const {
    return refuse_order(authority,
                        {.policy = "test", .digest = "d1", .set = "s1", .proof = &demands}, pod,
                        target, now);
  }
};

TEST_F(OrderGuardTest, the_taint_is_not_demanded_and_off_is_all_that_is_missing) {
  protections.proof.everywhere.insert(policy::Evidence::Off);
  authority.reading.keeps_replacements_off = false;
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(OrderGuardTest, the_newest_answer_must_say_on_and_name_this_very_order) {
  for (const policy::Power other :
       {policy::Power::Off, policy::Power::Unknown, policy::Power::Failed}) {
    powers.reading->state.power = other;
    EXPECT_EQ(answer(), Reason::PowerNotOn);
  }
  powers.reading->state.power = policy::Power::On;
  powers.reading->fencer = "another";
  EXPECT_EQ(answer(), Reason::PowerNotOn);
  powers.reading->fencer = "redfish";
  powers.reading->order->request.endpoint = "another";
  EXPECT_EQ(answer(), Reason::PowerNotOn);
  powers.reading->order.reset();
  EXPECT_EQ(answer(), Reason::PowerNotOn);
  powers.reading.reset();
  EXPECT_EQ(answer(), Reason::PowerNotOn);
  authority.powers = nullptr;
  EXPECT_EQ(answer(), Reason::PowerNotOn);
}

TEST_F(OrderGuardTest, its_kubelet_is_silent_whatever_the_trigger_says) {
  authority.reading.readiness = Readiness::False;
  for (const KubeletLease lease : {KubeletLease::Alive, KubeletLease::Unread}) {
    authority.reading.kubelet_lease = lease;
    EXPECT_EQ(answer(),
              lease == KubeletLease::Alive ? Reason::LeaseAlive : Reason::LeaseUnreadable);
  }
}

TEST_F(OrderGuardTest, its_machine_does_not_answer_whatever_the_trigger_says) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kernel = true },")});
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), Reason::KernelAnswers);
  kernels.kernel = cluster::Kernel::Unsure;
  EXPECT_EQ(answer(), Reason::KernelUnsure);
}

TEST_F(OrderGuardTest, what_speaks_against_the_deletion_speaks_against_it) {
  in_force(Mode::Observe);
  EXPECT_EQ(answer(), Reason::ModeObserves);
  in_force(Mode::Enforce);
  leadership.until = std::nullopt;
  EXPECT_EQ(answer(), Reason::NotLeader);
  leadership.until = Moment::max();
  authority.reading.sent = now - 1h;
  EXPECT_EQ(answer(), Reason::ReadingTooOld);
  authority.reading.sent = now;
  protections.own_node = authority.node;
  EXPECT_EQ(answer(), Reason::OwnNode);
  protections.own_node = NodeName();
  authority.reading.hold = "a person";
  EXPECT_EQ(answer(), Reason::OnHold);
  authority.reading.hold.reset();
  count_nodes(10, 9);
  EXPECT_EQ(answer(), Reason::TooManyDown);
}

TEST_F(OrderGuardTest, a_hold_on_another_pod_and_another_policy_s_word_keep_it_on) {
  kube::Pod other = pod;
  other.uid = Uid("other");
  other.ref = {.space = Namespace("bank"), .name = "ledger-0"};
  pods->push_back(other);
  EXPECT_EQ(answer(), Reason::HoldUnknown) << "nobody has read whether its namespace is held";
  authority.namespaces[other.ref.space] = {.known = true, .sent = now - 1h};
  EXPECT_EQ(answer(), Reason::ReadingTooOld);
  authority.namespaces[other.ref.space] = {.known = true, .hold = "audit", .sent = now};
  EXPECT_EQ(answer(), Reason::OnHold);
  EXPECT_EQ(hold_on_any(authority, target), "namespace bank: audit");
  authority.namespaces[other.ref.space] = {.known = true, .sent = now};
  EXPECT_EQ(answer(), std::nullopt);
  authority.held_pods.emplace(other.uid, "a person");
  EXPECT_EQ(answer(), Reason::OnHold);
  // One that is gone holds nothing.
  authority.held_pods.clear();
  authority.held_pods.emplace(Uid("gone"), "a person");
  EXPECT_EQ(answer(), std::nullopt);
  target.objection = Reason::PolicyForbids;
  EXPECT_EQ(answer(), Reason::PolicyForbids);
}

TEST_F(OrderGuardTest, all_pods_of_the_node_are_known_and_were_listed_a_moment_ago) {
  target.listed = now - 1h;
  EXPECT_EQ(answer(), Reason::PodsUnknown);
  target.listed = now;
  target.complete = false;
  EXPECT_EQ(answer(), Reason::PodsUnknown);
  target.complete = true;
  target.pods = nullptr;
  EXPECT_EQ(answer(), Reason::PodsUnknown);
}

// Somebody has attested it meanwhile.
TEST_F(OrderGuardTest, where_proof_is_there_by_now_it_stays_on) {
  demands.front().insert(policy::Evidence::Attested);
  EXPECT_EQ(answer(), std::nullopt);
  authority.reading.attestation.counted = Attestation{};
  EXPECT_EQ(answer(), Reason::PowerNotOn);
}

TEST_F(OrderGuardTest, by_detection_a_machine_is_switched_off_that_is_lost_and_not_before) {
  policy::Binding off = binding(Mode::Enforce);
  off.allow.act_on = policy::ActOn::Off;
  off.allow.after = 12s;
  activate({off});
  authority.source = "off:12s";
  demands.clear();  // its binding demands it
  kernels.since[authority.node] = now - 1h;
  EXPECT_EQ(answer(), Reason::KernelUnsure) << "its kubelet may renew its Lease";
  authority.reading.lost = true;
  EXPECT_EQ(answer(), std::nullopt);
  kernels.since.clear();
  EXPECT_EQ(answer(), Reason::KernelUnsure);
  kernels.kernel = cluster::Kernel::Answers;
  EXPECT_EQ(answer(), Reason::KernelAnswers);
}

TEST_F(OrderGuardTest, neither_a_health_source_nor_lost_is_word_enough) {
  for (const char* source : {"storage", "lost:12s"}) {
    authority.source = source;
    EXPECT_EQ(answer(), Reason::SignalUnfit);
  }
}

TEST_F(OrderGuardTest, off_is_enough_only_where_nothing_else_is_missing) {
  policy::EvidenceSet off;
  off.insert(policy::Evidence::Off);
  policy::EvidenceSet attested;
  attested.insert(policy::Evidence::Attested);
  const Ground ground = {.proof = &demands};
  EXPECT_TRUE(lacks_only(target.order.aim, authority, ground, pod));
  protections.proof.everywhere = attested;
  EXPECT_FALSE(lacks_only(target.order.aim, authority, ground, pod));
  protections.proof.everywhere = off;
  EXPECT_TRUE(lacks_only(target.order.aim, authority, {}, pod));
  powers.reading->state.power = policy::Power::Off;
  EXPECT_FALSE(lacks_only(target.order.aim, authority, ground, pod)) << "nothing is missing";
}

TEST_F(ProofGuardTest, unreachable_is_the_word_of_kubernetes_and_a_dead_lease) {
  demanded = {policy::EvidenceSet()};
  demanded.front().insert(policy::Evidence::Unreachable);
  EXPECT_EQ(proven(), std::nullopt);
  // A kubelet that says False itself is reached; the trigger lets it pass.
  authority.reading.readiness = Readiness::False;
  EXPECT_EQ(proven(), Reason::ProofMissing);
}

TEST_F(ProofGuardTest, our_taint_waits_for_the_proof_too) {
  authority.reading.attestation.counted.reset();
  authority.quarantine = Quarantine::Always;
  EXPECT_EQ(
      refuse_quarantine(
          authority, {.policy = "test", .digest = "d1", .set = "s1", .proof = &demanded}, pod, now),
      Reason::ProofMissing);
}

}  // namespace
}  // namespace moonfence::fence
