#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

struct MadeAnewTest : IncidentsTest {
  // web-0 was bound to the node that is dead, and cannot be deleted at first; then another machine
  // takes its name, and web-1 is bound to that one.
  void replace(const std::string& boot, const std::string& ready) {
    add_pod("web-0");
    bind_at("web-0", "2026-01-02T04:00:00Z");
    scripts["web-0"] = {broken()};
    take_up_nodes();
    tell(Look::Fell);
    run_for(2s);
    nodes["n1"] = {.ready = ready,
                   .uid = "node-2",
                   .tainted = false,
                   .boot_id = boot,
                   .created = "2026-01-02T05:05:00Z"};
    scripts.clear();
    add_pod("web-1");
    bind_at("web-1", "2026-01-02T05:05:30Z");
    tell();
    run_for(1min);
  }
  void replace_node() {
    nodes["n1"] = {.ready = "True",
                   .uid = "node-2",
                   .tainted = false,
                   .boot_id = "boot-2",
                   .created = "2026-01-02T05:05:00Z"};
  }
  void runs_since(const std::string& started) {
    pods["web-0"]["status"]["containerStatuses"] = {
        {{"name", "main"}, {"state", {{"running", {{"startedAt", started}}}}}}};
  }
};

TEST_F(MadeAnewTest, what_was_bound_before_the_new_one_existed_is_deleted_and_nothing_else) {
  replace("boot-2", "True");
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 2s"}));
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::NodeReplaced), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// The clock of an API server was put back by some minutes: a pod that is bound to the new machine
// now reads as if it had been bound before there was one.
TEST_F(MadeAnewTest, what_comes_later_is_the_new_one_s_whatever_its_stamps_say) {
  scripts["web-0"] = {broken(), broken(), broken(), broken(), broken(), broken(), broken()};
  add_pod("web-0");
  bind_at("web-0", "2026-01-02T04:00:00Z");
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"] = {.ready = "True",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "boot-2",
                 .created = "2026-01-02T05:05:00Z"};
  tell();
  run_for(5s);
  EXPECT_TRUE(pods.contains("web-0"));
  add_pod("web-1");
  bind_at("web-1", "2026-01-02T05:04:00Z");
  scripts.clear();
  run_for(2min);
  EXPECT_FALSE(pods.contains("web-0"));
  EXPECT_TRUE(pods.contains("web-1"));
}

// Whoever holds a node means the machine's pods and its disk, and had put it on the Node that is
// gone.
TEST_F(MadeAnewTest, who_held_the_old_one_holds_what_is_left_of_it) {
  add_pod("web-0");
  bind_at("web-0", "2026-01-02T04:00:00Z");
  nodes["n1"].annotations["moonfence.io/hold"] = "its disk is being saved";
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"] = {.ready = "True",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "boot-2",
                 .created = "2026-01-02T05:05:00Z"};
  tell();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_GT(story.count(Record::Kind::IncidentHeld, Reason::OnHold) +
                story.count(Record::Kind::Refusal, Reason::OnHold),
            0U);
}

// The new machine's kubelet had started it again, while a policy made it wait: it was deleted as
// one that is lost, and ran.
TEST_F(MadeAnewTest, what_the_new_one_has_started_since_is_its_own) {
  const auto dead = nodes.at("n1");
  for (const std::string by_its_clock : {"2026-01-02T05:06:00Z", "2026-01-02T03:59:00Z"}) {
    SCOPED_TRACE(by_its_clock);
    add_pod("web-0");
    bind_at("web-0", "2026-01-02T04:00:00Z");
    runs_since("2026-01-02T04:00:05Z");
    take_up_nodes(on_every_signal("return fence.wait('not yet', 10)"));
    nodes["n1"] = dead;
    tell(Look::Fell);
    run_for(2s);
    nodes["n1"] = {.ready = "True",
                   .uid = "node-2",
                   .tainted = false,
                   .boot_id = "boot-2",
                   .created = "2026-01-02T05:05:00Z"};
    tell();
    run_for(2s);
    EXPECT_EQ(incidents->open_incidents(), 1U);
    runs_since(by_its_clock);
    run_for(30s);
    EXPECT_EQ(incidents->open_incidents(), 0U) << "nothing is left behind";
  }
}

// The same before anybody had listed it beside the new Node: there is no older list to compare
// with, and the stamp has to tell.
TEST_F(MadeAnewTest, what_it_had_started_before_the_first_look_is_its_own_too) {
  for (const auto& [started, goes] :
       {std::pair("2026-01-02T05:06:00Z", false), std::pair("2026-01-02T04:00:05Z", true)}) {
    SCOPED_TRACE(started);
    nodes["n1"] = {};
    scripts["web-0"] = {broken()};
    add_pod("web-0");
    bind_at("web-0", "2026-01-02T04:00:00Z");
    runs_since("2026-01-02T04:00:05Z");
    take_up_nodes();
    tell(Look::Fell);
    run_for(2s);
    runs_since(started);
    replace_node();
    scripts.clear();
    tell();
    run_for(1min);
    EXPECT_EQ(pods.contains("web-0"), !goes);
    EXPECT_EQ(incidents->open_incidents(), 0U);
  }
}

// It was taken for news of a node that does not concern the incident, and nobody looked at it.
TEST_F(MadeAnewTest, that_the_new_one_falls_in_its_turn_is_an_incident_of_its_own) {
  add_pod("web-0");
  bind_at("web-0", "2026-01-02T04:00:00Z");
  take_up_nodes(on_every_signal("return fence.wait('not yet', 10)"));
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"] = {.ready = "True",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "boot-2",
                 .created = "2026-01-02T05:05:00Z"};
  add_pod("web-1");
  bind_at("web-1", "2026-01-02T05:05:30Z");
  tell();
  run_for(30s);
  nodes["n1"].ready = "Unknown";
  nodes["n1"].tainted = true;
  tell(Look::Fell);
  run_for(5s);
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::NodeUnknown), 2U);
  EXPECT_EQ(story.count(Record::Kind::IncidentClosed, Reason::NodeReplaced), 2U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

TEST_F(MadeAnewTest, also_when_the_new_one_never_says_anything) {
  replace("", "");
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 2s"}));
}

TEST_F(MadeAnewTest, the_same_machine_that_joins_again_keeps_its_pods) {
  replace("boot-1", "True");
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(closed_by(), Reason::NodeReplaced);
  tell();  // and is not looked at again and again
  run_for(1min);
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::NodeReplaced), 1U);
}

TEST_F(MadeAnewTest, of_a_node_whose_kubelet_spoke_nothing_is_left_behind) {
  nodes["n1"].ready = "False";
  nodes["n1"].renewed = "2026-01-02T05:00:01.000000Z";
  replace("boot-2", "True");
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::NodeReplaced), 0U);
}

// The same, and the leader dies in between.
struct MadeAnewTakeOverTest : StorageTest {
  static constexpr const char* kBefore = "2026-01-02T04:00:00Z";

  void begin_and_die() {
    add_pod("web-0");
    bind_at("web-0", kBefore);
    scripts["web-0"] = {broken()};
    take_up_nodes();
    tell(Look::Fell);
    run_for(2s);
    die();
  }
  void die() {
    run_for(1500ms);  // what is written behind
    incidents.reset();
    journal.reset();
    scripts.clear();
  }
  void replace(const std::string& boot, const std::string& ready) {
    nodes["n1"] = {.ready = ready,
                   .uid = "node-2",
                   .tainted = false,
                   .boot_id = boot,
                   .created = "2026-01-02T05:05:00Z"};
    add_pod("web-1");
    bind_at("web-1", "2026-01-02T05:05:30Z");
  }
  // As app/ does every second.
  void lead_for(Duration duration) {
    const Moment until = loop.now() + duration;
    while (loop.now() < until) {
      const cluster::NodeView seen = nodes.contains("n1") ? view() : cluster::NodeView{};
      const auto find = [&](const NodeName& name) {
        return nodes.contains(name.text()) ? &seen : nullptr;
      };
      incidents->review(find);
      incidents->take_up_deleted(find, [](const NodeName&) { return true; });
      run_for(1s);
    }
  }
  [[nodiscard]] bool is_there(const std::string& pod) const { return pods.contains(pod); }
};

TEST_F(MadeAnewTakeOverTest, the_next_leader_goes_on_with_what_was_bound_before) {
  begin_and_die();
  replace("boot-2", "True");
  restart();
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_TRUE(is_there("web-1"));
  EXPECT_EQ(made_ids, 1) << "by the same incident";
  const IncidentRecord record = records.record("i1");
  EXPECT_EQ(record.leaders.size(), 2U);
  ASSERT_TRUE(record.closed);
  EXPECT_EQ(record.closed->reason, Reason::Settled);
}

// Its leader died after somebody had put a hold on the old Node, which is gone.
TEST_F(MadeAnewTakeOverTest, who_held_the_old_one_holds_it_for_the_next_leader_too) {
  add_pod("web-0");
  bind_at("web-0", kBefore);
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"].annotations["moonfence.io/hold"] = "its disk is being saved";
  run_for(10s);
  die();
  replace("boot-2", "True");
  restart();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
}

TEST_F(MadeAnewTakeOverTest, also_when_it_knows_the_policies_later) {
  begin_and_die();
  replace("boot-2", "True");
  restart();
  const auto known = active.current();
  active.activate(std::make_shared<const policy::PolicySet>());
  lead_for(5s);
  EXPECT_TRUE(is_there("web-0"));
  active.activate(known);
  incidents->policies_changed();
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_TRUE(is_there("web-1"));
}

TEST_F(MadeAnewTakeOverTest, also_the_third_leader) {
  begin_and_die();
  replace("boot-2", "True");
  scripts["web-0"] = {broken()};
  restart();
  lead_for(12min);
  EXPECT_TRUE(is_there("web-0"));
  die();
  restart();
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_TRUE(is_there("web-1"));
  EXPECT_EQ(made_ids, 1);
}

TEST_F(MadeAnewTakeOverTest, the_same_machine_that_joined_again_keeps_its_pods) {
  begin_and_die();
  replace("boot-1", "True");
  restart();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReplaced);
  EXPECT_EQ(incidents->open_incidents(), 0U);
}

TEST_F(MadeAnewTakeOverTest, a_new_one_that_is_down_itself_comes_after_it) {
  begin_and_die();
  replace("boot-2", "Unknown");
  nodes["n1"].tainted = true;
  restart();
  tell(Look::Swept);
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_FALSE(is_there("web-1"));
  EXPECT_EQ(records.record("i1").node_uid, Uid("node-1"));
  EXPECT_EQ(records.record("i2").node_uid, Uid("node-2"));
}

TEST_F(MadeAnewTakeOverTest, the_node_may_be_gone_when_the_next_leader_comes) {
  begin_and_die();
  nodes.clear();
  restart();
  incidents->policies_changed();
  lead_for(5s);
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeGone);
  replace("boot-2", "True");
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_TRUE(is_there("web-1"));
}

TEST_F(MadeAnewTakeOverTest, or_when_the_one_before_it_did) {
  add_pod("web-0");
  bind_at("web-0", kBefore);
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);
  nodes.clear();
  run_for(10s);
  ASSERT_EQ(closed_by(), Reason::NodeGone);
  die();
  replace("boot-2", "True");
  restart();
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
  EXPECT_TRUE(is_there("web-1"));
}

// Nobody watched it meanwhile: it may have been up.
TEST_F(MadeAnewTakeOverTest, what_was_read_long_ago_proves_nothing) {
  begin_and_die();
  replace("boot-2", "True");
  run_for(10min);
  restart();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReplaced);
}

TEST_F(MadeAnewTakeOverTest, nor_when_it_was_back_in_between) {
  begin_and_die();
  nodes["n1"].ready = "True";
  restart();
  lead_for(2s);
  replace("boot-2", "True");
  tell();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReady);
}

TEST_F(MadeAnewTakeOverTest, nor_of_a_kubelet_that_spoke) {
  nodes["n1"].ready = "False";
  nodes["n1"].renewed = "2026-01-02T05:00:01.000000Z";
  begin_and_die();
  EXPECT_FALSE(records.record("i1").silent);
  replace("boot-2", "True");
  restart();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
}

// Nobody knows which boot had them: a kubelet that joined again runs them still, and a new one
// takes them up.
TEST_F(MadeAnewTakeOverTest, of_a_machine_that_nobody_read_a_living_one_keeps_the_pods) {
  add_pod("web-0");
  bind_at("web-0", kBefore);
  replace("boot-2", "True");
  take_up_nodes();
  tell();
  lead_for(1min);
  EXPECT_TRUE(is_there("web-0"));
  EXPECT_TRUE(story.records.empty());
}

// Whatever was bound to that name is bound to a node that is down.
TEST_F(MadeAnewTakeOverTest, of_a_machine_that_nobody_read_a_dead_one_loses_them) {
  add_pod("web-0");
  bind_at("web-0", kBefore);
  replace("boot-2", "Unknown");
  nodes["n1"].tainted = true;
  take_up_nodes();
  tell(Look::Swept);
  lead_for(1min);
  EXPECT_FALSE(is_there("web-0"));
}

}  // namespace
}  // namespace moonfence::fence
