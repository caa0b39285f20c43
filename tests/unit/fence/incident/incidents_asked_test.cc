// What somebody else asks for (fence/remediation): it is dealt with as one that Kubernetes calls
// down, if it does, and nothing becomes deletable by it.

#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

struct AskedTest : StorageTest {
  void take_up(const std::shared_ptr<const policy::Policy>& policy =
                   on_every_signal("return fence.delete_pod('its node is dead')"),
               Mode mode = Mode::Enforce) {
    take_up_nodes(policy, mode);
    incidents->policies_changed();
  }
  [[nodiscard]] bool closed() const { return incidents->open_incidents() == 0; }
  void ask() { tell(Look::Asked); }
};

TEST_F(AskedTest, a_node_whose_incident_is_over_is_looked_at_again) {
  take_up();
  run_incident();
  add_pod("web-0");
  ask();
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::RemediationAsked), 1U);
  run_for(5s);
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_TRUE(run_until([this] { return closed(); }, 10min));
}

TEST_F(AskedTest, a_ready_node_is_not_looked_at_and_what_it_is_asked_for_deletes_nothing) {
  take_up();
  add_pod("web-0");
  nodes["n1"].ready = "True";
  nodes["n1"].tainted = false;
  ask();
  run_for(1min);
  EXPECT_TRUE(closed());
  EXPECT_EQ(deletes(), Lines{});
}

// The watch is late, and the live reading says Ready.
TEST_F(AskedTest, a_node_that_turns_out_to_be_ready_keeps_its_pods) {
  take_up();
  add_pod("web-0");
  const cluster::NodeView down = view();
  nodes["n1"].ready = "True";
  nodes["n1"].tainted = false;
  incidents->look_at(down, Look::Asked);
  run_for(1min);
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(AskedTest, the_mode_holds_as_ever) {
  take_up(deleting_policy(), Mode::Observe);
  add_pod("web-0");
  ask();
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
}

TEST_F(AskedTest, a_policy_that_wants_to_have_seen_the_fall_does_not_act_on_what_was_found_down) {
  const auto no_sweep =
      policy_of("return fence.delete_pod('dead')", "trigger = { sweep = false },");
  take_up(no_sweep);
  add_pod("web-0");
  tell(Look::Swept);
  ask();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
}

// The policy came when the node was down already: it did not see it fall, whoever asks.
TEST_F(AskedTest, nor_one_that_came_into_force_after_the_fall) {
  take_up(on_every_signal("return fence.skip('not mine')"));
  run_incident();
  add_pod("web-0");
  activate({binding_of(policy_of("return fence.delete_pod('dead')",
                                 "trigger = { sweep = false, live_kubelet = true },"))});
  incidents->policies_changed();
  tell(Look::PoliciesChanged);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  ask();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_TRUE(closed());
}

// A volume would stay attached for hours.
TEST_F(AskedTest, what_was_begun_is_finished_though_nobody_asks_any_more) {
  take_up(detaching_policy());
  add_pod_with_volume("web-0");
  storage_lets_go = false;
  ask();
  run_for(5s);
  ASSERT_EQ(story.count(Record::Kind::IncidentOpened, Reason::RemediationAsked), 1U);
  ASSERT_EQ(pods.count("web-0"), 0U);
  ASSERT_EQ(attachments.size(), 1U);
  incidents->withdraw_all_but({});
  ASSERT_EQ(incidents->open_incidents(), 1U);
  attachments.clear();
  run_for(5min);
  EXPECT_TRUE(closed());
}

TEST_F(AskedTest, what_nobody_asks_for_any_more_ends_and_deletes_no_more) {
  take_up(on_every_signal("return fence.wait('not yet', 30)"));
  add_pod("web-0");
  ask();
  run_for(5s);
  incidents->withdraw_all_but({NodeName("n1")});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  incidents->withdraw_all_but({});
  EXPECT_EQ(closed_by(), Reason::RemediationOver);
  activate({binding_of(on_every_signal("return fence.delete_pod('dead')"))});
  incidents->policies_changed();
  run_for(5min);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(AskedTest, what_kubernetes_opened_or_calls_for_meanwhile_goes_on) {
  take_up(on_every_signal("return fence.wait('not yet', 30)"));
  add_pod("web-0");
  tell(Look::Fell);
  ask();
  run_for(5s);
  incidents->withdraw_all_but({});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  incidents->step_down();
  incidents->lead();
  for (const Look other : {Look::Fell, Look::Expired, Look::PoliciesChanged, Look::TookOver}) {
    ask();
    run_for(5s);
    tell(other);
    incidents->withdraw_all_but({});
    EXPECT_EQ(incidents->open_incidents(), 1U);
    incidents->step_down();
    incidents->lead();
  }
}

TEST_F(AskedTest, nothing_is_opened_by_whoever_does_not_lead_or_does_not_know_the_records) {
  take_up();
  add_pod("web-0");
  incidents->await_records();
  ask();
  EXPECT_TRUE(closed());
  incidents->take_over({});
  EXPECT_TRUE(closed()) << "it was not kept for later";
  incidents->step_down();
  ask();
  EXPECT_TRUE(closed());
  incidents->lead();
  incidents->stop();
  ask();
  EXPECT_TRUE(closed());
}

}  // namespace
}  // namespace moonfence::fence
