#include "fence/guard.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/leadership.h"
#include "support/policies.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using cluster::Readiness;
using policy::Mode;

struct GuardTest : testing::Test {
  Moment now = Moment{} + 1h;
  policy::ActiveSet active;
  test::FakeLeadership leadership;
  Brake brake{BrakeRules{}};
  Protections protections;
  Authority authority = {.incident_open = true,
                         .node = NodeName("n1"),
                         .node_uid = Uid("node-1"),
                         .reading = {.readiness = Readiness::Unknown,
                                     .uid = Uid("node-1"),
                                     .keeps_replacements_off = true,
                                     .pulse = Pulse::Dead,
                                     .sent = Moment{} + 1h},
                         .zone = {},
                         .page = std::make_shared<Page>(IncidentRecord{}, "moonfence-0_a", then),
                         .brake = &brake,
                         .protections = &protections,
                         .active = &active,
                         .leadership = &leadership};
  kube::Pod pod = [] {
    kube::Pod made;
    made.ref = {.space = Namespace("db"), .name = "web-0"};
    made.uid = Uid("pod-1");
    made.node = NodeName("n1");
    made.phase = "Running";
    made.owners = {{.api_version = "apps/v1",
                    .kind = "StatefulSet",
                    .name = "web",
                    .uid = Uid("set-1"),
                    .controller = true}};
    return made;
  }();

  static WallTime then() { return WallTime{}; }
  // A step of the record, and the record stands.
  void record(const std::string& uid) {
    IncidentRecord::Step step;
    step.pod_uid = Uid(uid);
    authority.page->plan(std::move(step));
    authority.page->stands(authority.page->revision());
  }

  GuardTest() {
    for (const char* uid : {"pod-1", "va-1"}) {
      record(uid);
    }
    in_force(Mode::Enforce);
    count_nodes(10, 1);
  }
  void count_nodes(int workers, int down) {
    cluster::Census census;
    for (int i = 0; i < workers; ++i) {
      cluster::NodeView node;
      node.readiness = i < down ? Readiness::Unknown : Readiness::True;
      census.add(node);
    }
    brake.count(census, now);
  }

  static policy::Binding binding(Mode mode, const std::string& digest = "d1",
                                 const std::string& more = "trigger = { live_kubelet = true },") {
    auto loaded = load_text(policy_text("return fence.skip('no')", more));
    return {.name = "test",
            .policy = std::make_shared<const policy::Policy>(*std::move(loaded)),
            .scope = policy::NamespaceScope::of({Namespace("db")}),
            .mode = mode,
            .allow = {},
            .digest = digest,
            .error = {}};
  }
  void activate(std::vector<policy::Binding> bindings, const std::string& digest = "s1") {
    active.activate(std::make_shared<const policy::PolicySet>(
        policy::PolicySet{.bindings = std::move(bindings), .digest = digest}));
  }
  void in_force(Mode mode) { activate(std::vector{binding(mode)}); }

  [[nodiscard]] std::optional<Reason> answer() const {
    return refuse_pod_deletion(authority, {.policy = "test", .digest = "d1", .set = "s1"}, pod,
                               now);
  }
};

TEST_F(GuardTest, everything_in_order_passes) {
  EXPECT_EQ(answer(), std::nullopt);
}

TEST_F(GuardTest, a_closed_incident_may_do_nothing) {
  authority.incident_open = false;
  EXPECT_EQ(answer(), Reason::IncidentClosed);
}

TEST_F(GuardTest, only_the_leader_acts_and_only_if_it_still_is_when_the_call_ends) {
  leadership.until = now + kActionSpan;
  EXPECT_EQ(answer(), std::nullopt);
  leadership.until = now + kActionSpan - 1ns;
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

TEST_F(GuardTest, a_living_kubelet_is_out_of_reach_for_a_policy_that_wants_silence) {
  activate({binding(Mode::Enforce, "d1", "trigger = { live_kubelet = false },")});
  EXPECT_EQ(answer(), std::nullopt);
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    authority.reading.readiness = readiness;
    for (const Pulse pulse : {Pulse::Alive, Pulse::Unread}) {
      authority.reading.pulse = pulse;
      EXPECT_EQ(answer(), Reason::SignalUnfit);
    }
    authority.reading.pulse = Pulse::Dead;
    EXPECT_EQ(answer(), std::nullopt);
  }
}

TEST_F(GuardTest, a_living_kubelet_that_says_no_is_for_those_that_act_on_it) {
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    authority.reading.readiness = readiness;
    for (const Pulse pulse : {Pulse::Alive, Pulse::Unread, Pulse::Dead}) {
      authority.reading.pulse = pulse;
      EXPECT_EQ(answer(), std::nullopt);
    }
  }
}

TEST_F(GuardTest, unknown_is_nothing_to_anybody_without_a_dead_lease) {
  for (const char* trigger : {"live_kubelet = true", "live_kubelet = false"}) {
    activate({binding(Mode::Enforce, "d1", "trigger = { " + std::string(trigger) + " },")});
    authority.reading.pulse = Pulse::Alive;
    EXPECT_EQ(answer(), Reason::LeaseAlive);
    authority.reading.pulse = Pulse::Unread;
    EXPECT_EQ(answer(), Reason::LeaseUnreadable);
    authority.reading.pulse = Reading().pulse;  // nobody has looked
    EXPECT_EQ(answer(), Reason::LeaseUnreadable);
    authority.reading.pulse = Pulse::Dead;
    EXPECT_EQ(answer(), std::nullopt);
  }
}

TEST_F(GuardTest, an_empty_uid_is_no_precondition) {
  pod.uid = Uid();
  EXPECT_EQ(answer(), Reason::NoUid);
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
  authority.reading.readiness = Readiness::Gone;
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
  authority.reading.sent = now;
  EXPECT_EQ(answer(), std::nullopt);
  authority.brake = nullptr;
  EXPECT_EQ(answer(), Reason::TooManyDown);
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

struct AttachmentGuardTest : GuardTest {
  std::set<std::string> drivers = {"csi.example.com"};
  AttachmentCase target = {.attachment = {.name = "csi-1",
                                          .uid = Uid("va-1"),
                                          .attacher = "csi.example.com",
                                          .node = NodeName("n1"),
                                          .volume = "pv-1",
                                          .held_by_attacher = true},
                           .driver = "csi.example.com",
                           .volume = "pv-1",
                           .used_by_others = false};

  AttachmentGuardTest() { authority.fencing_drivers = &drivers; }
  [[nodiscard]] std::optional<Reason> refuse() const {
    return refuse_attachment_deletion(authority, {.policy = "test", .digest = "d1", .set = "s1"},
                                      pod, target, now);
  }
};

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
  target.volume = target.attachment.volume = "";  // an inline volume has no name to compare
  EXPECT_EQ(refuse(), Reason::AttachmentMismatch);
}

TEST_F(AttachmentGuardTest, only_drivers_that_fence_are_detached) {
  drivers.clear();
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
  authority.fencing_drivers = nullptr;
  EXPECT_EQ(refuse(), Reason::DriverNotDeclared);
}

TEST_F(AttachmentGuardTest, what_others_use_or_nobody_holds_stays) {
  target.used_by_others = true;
  EXPECT_EQ(refuse(), Reason::VolumeInUse);
  target.used_by_others = false;
  target.attachment.held_by_attacher = false;
  EXPECT_EQ(refuse(), Reason::NotHeldByAttacher);
}

TEST_F(AttachmentGuardTest, before_its_pod_only_when_the_pod_is_being_deleted) {
  target.before_pod = true;
  EXPECT_EQ(refuse(), Reason::PodNotTerminating);
  pod.deletion_timestamp = WallTime(1767330000s);
  EXPECT_EQ(refuse(), std::nullopt);
}

}  // namespace
}  // namespace moonfence::fence
