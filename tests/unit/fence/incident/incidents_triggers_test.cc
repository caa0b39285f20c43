#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

// One incident a node, and several bindings that begin to act at different moments of it.
struct TriggersTest : IncidentsTest {
  static Binding deletes_app(const std::string& app, const std::string& trigger) {
    return binding_of(
        named_policy(app, "return fence.delete_pod('dead')",
                     "select = { labels = 'app=" + app + "' }, trigger = { " + trigger + " },"));
  }
  void open_with(std::vector<Binding> bindings) {
    take_up_nodes();
    activate(std::move(bindings));
  }
  [[nodiscard]] bool closed() const { return incidents->open_incidents() == 0; }

  TriggersTest() {
    add_pod("db-0", "n1", "db", "db");
    add_pod("web-0", "n1", "db", "web");
  }
};

TEST_F(TriggersTest, each_binding_acts_when_it_is_due) {
  open_with({deletes_app("db", "failures = 3, interval = '10s'"), deletes_app("web", "")});
  run_incident();
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "db-0 30s"}));
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(made_ids, 1);
}

TEST_F(TriggersTest, nothing_is_read_before_the_first_is_due) {
  open_with({deletes_app("db", "failures = 3, interval = '10s'"),
             deletes_app("web", "failures = 2, interval = '10s'")});
  tell(Look::Fell);
  run_for(19s);
  EXPECT_EQ(reads(), Lines{});
  EXPECT_EQ(story.told().back(), "incident_held holding_down");
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"web-0 20s", "db-0 30s"}));
}

TEST_F(TriggersTest, a_node_that_comes_back_in_time_is_left_alone_by_the_patient_one) {
  open_with({deletes_app("db", "failures = 3, interval = '10s'"), deletes_app("web", "")});
  tell(Look::Fell);
  run_for(29s);
  nodes["n1"].ready = "True";
  tell();
  run_for(1h);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(closed_by(), Reason::NodeReady);
}

TEST_F(TriggersTest, the_hold_down_counts_from_the_fall_also_after_a_reload) {
  const auto patient = deletes_app("db", "failures = 3, interval = '10s'");
  open_with({patient, deletes_app("web", "failures = 9, interval = '10s'")});
  tell(Look::Fell);
  run_for(12s);
  activate({patient});
  incidents->policies_changed();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"db-0 30s"});
}

TEST_F(TriggersTest, a_shorter_hold_down_that_has_passed_already_acts_at_once) {
  open_with({deletes_app("db", "failures = 9, interval = '10s'")});
  tell(Look::Fell);
  run_for(12s);
  activate({deletes_app("web", "failures = 2, interval = '5s'")});
  incidents->policies_changed();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 12s"});
}

TEST_F(TriggersTest, an_incident_that_is_opened_later_counts_the_time_the_node_was_down) {
  open_with({deletes_app("db", "failures = 3, interval = '10s'")});
  run_incident();
  add_pod("db-1", "n1", "db", "db");
  run_for(1h);
  tell(Look::Expired);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"db-0 30s", "db-1 1h51s"}));
  add_pod("db-2", "n1", "db", "db");
  tell(Look::Fell);  // it was Ready in between
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes().back(), "db-2 1h1m42s");
}

TEST_F(TriggersTest, a_living_kubelet_is_left_to_those_that_act_on_it_until_it_falls_silent) {
  nodes["n1"].ready = "False";
  open_with({deletes_app("db", ""), deletes_app("web", "live_kubelet = true")});
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(story.told().back(), "incident_held signal_unfit");
  const std::size_t read = reads().size();
  nodes["n1"].unschedulable = true;  // news, but not the one that is waited for
  tell();
  run_for(9s);
  EXPECT_EQ(reads().size(), read);
  nodes["n1"].ready = "Unknown";
  tell();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "db-0 39s"}));
}

TEST_F(TriggersTest, a_kubelet_that_falls_silent_during_the_pass_is_not_missed) {
  nodes["n1"].ready = "False";
  delete_delay = 500ms;
  open_with({deletes_app("db", ""), deletes_app("web", "live_kubelet = true")});
  tell(Look::Fell);
  run_for(100ms);
  nodes["n1"].ready = "Unknown";
  tell();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "db-0 1s500ms"}));
}

TEST_F(TriggersTest, a_wait_does_not_outlast_the_signal_that_another_waits_for) {
  nodes["n1"].ready = "False";
  open_with(
      {deletes_app("db", ""), binding_of(named_policy("slow", "return fence.wait('later', 3000)",
                                                      "select = { labels = 'app=web' }, "
                                                      "trigger = { live_kubelet = true },"))});
  tell(Look::Fell);
  run_for(10s);
  nodes["n1"].ready = "Unknown";
  tell();
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{"db-0 10s"});
}

TEST_F(TriggersTest, those_that_want_silence_alone_look_at_the_lease_when_it_could_be_dead) {
  nodes["n1"].ready = "False";
  open_with({deletes_app("db", ""), deletes_app("web", "")});
  tell(Look::Fell);
  for (const char* renewed : {"2026-01-02T05:00:30Z", "2026-01-02T05:01:10Z"}) {
    run_for(39s);
    nodes["n1"].renewed = renewed;
    run_for(1s);
  }
  run_for(39s);
  EXPECT_EQ(lease_reads(), (Lines{"n1 0s", "n1 40s", "n1 1m20s"}));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_not_ready", "incident_held signal_unfit"}));
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"db-0 2m", "web-0 2m"}));  // it has stood still for 40 s
}

TEST_F(TriggersTest, unknown_is_nothing_while_the_kubelet_renews_its_lease) {
  nodes["n1"].renewed = "2026-01-02T05:00:01Z";
  open_with({deletes_app("db", ""), deletes_app("web", "live_kubelet = true")});
  tell(Look::Fell);
  run_for(39s);
  EXPECT_EQ(lease_reads(), Lines{"n1 0s"});
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_unknown", "incident_held lease_alive"}));
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"db-0 40s", "web-0 40s"}));
}

// A killed kubelet, or a machine whose processes stand still: containers may run.
TEST_F(TriggersTest, while_its_machine_answers_nothing_is_done_until_it_falls_silent) {
  kernels.kernel = cluster::Kernel::Answers;
  open_with({deletes_app("db", ""), deletes_app("web", "live_kubelet = true")});
  tell(Look::Fell);
  run_for(1h);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(), (Lines{"incident_opened node_unknown", "incident_held kernel_answers"}));
  kernels.kernel = cluster::Kernel::Silent;
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"db-0 1h", "web-0 1h"}));
}

TEST_F(TriggersTest, a_policy_that_says_so_acts_on_a_machine_that_answers_and_no_other_does) {
  kernels.kernel = cluster::Kernel::Answers;
  open_with({deletes_app("db", ""), deletes_app("web", "live_kernel = true")});
  tell(Look::Fell);
  run_for(25s);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  kernels.kernel = cluster::Kernel::Silent;
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "db-0 31s"}));  // 10 s after the last of three looks
}

TEST_F(TriggersTest, a_lease_that_cannot_be_read_holds_whoever_needs_it_and_is_asked_for_again) {
  lease_answer = status(403, "Forbidden", "n1");
  open_with({deletes_app("db", ""), deletes_app("web", "live_kubelet = true")});
  tell(Look::Fell);
  run_for(14s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(),
            (Lines{"incident_opened node_unknown", "incident_held lease_unreadable"}));
  EXPECT_EQ(lease_reads(), (Lines{"n1 0s", "n1 5s"}));
  lease_answer = {};
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), (Lines{"db-0 15s", "web-0 15s"}));
}

TEST_F(TriggersTest, a_signal_with_a_longer_hold_down_is_waited_for) {
  open_with({deletes_app("db", ""),
             deletes_app("web", "live_kubelet = true, failures = 2, interval = '30s'")});
  nodes["n1"].ready = "Unknown";
  nodes["n1"].tainted = false;
  tell(Look::Fell);
  run_for(500ms);
  nodes["n1"].ready = "False";
  nodes["n1"].tainted = true;
  tell();
  run_for(50s);
  EXPECT_EQ(deletes(), Lines{});
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
  EXPECT_EQ(incidents->open_incidents(), 1U);  // for the one that wants silence
}

TEST_F(TriggersTest, nodes_found_down_are_for_those_that_sweep) {
  open_with({deletes_app("db", "sweep = false"), deletes_app("web", "")});
  tell(Look::Swept);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(TriggersTest, lists_that_cannot_be_read_are_asked_for_ever_less_often) {
  add_pod("shop-0", "n1", "shop", "web");
  list_answer_in["shop"] = broken();
  const auto policy = named_policy("all", "return fence.delete_pod('dead')");
  open_with({binding_of(policy, Mode::Enforce, {Namespace("db"), Namespace("shop")})});
  tell(Look::Fell);
  run_for(70s);
  Lines lists = reads();
  std::erase_if(lists, [](const std::string& line) { return line.starts_with("n1"); });
  EXPECT_EQ(lists, (Lines{"pods 0s", "pods 0s", "pods 5s", "pods 5s", "pods 15s", "pods 15s",
                          "pods 35s", "pods 35s", "pods 1m5s", "pods 1m5s"}));
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::Unreadable), 1U);
  list_answer_in.clear();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes().back(), "shop-0 1m35s");
}

}  // namespace
}  // namespace moonfence::fence
