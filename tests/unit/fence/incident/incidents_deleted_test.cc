#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

// Row LH-22: a node whose object was deleted, where a policy takes that for down.
struct DeletedTest : StorageTest {
  static std::shared_ptr<const policy::Policy> on_deleted(
      const std::string& body = "return fence.delete_pod('its node is deleted')",
      const std::string& more = "live_kubelet = true") {
    return policy_of(body, "trigger = { deleted = true, " + more + " },");
  }
  [[nodiscard]] cluster::NodeView departed(const std::string& uid = "node-1") const {
    return {.name = NodeName("n1"),
            .uid = Uid(uid),
            .readiness = cluster::Readiness::Gone,
            .keeps_replacements_off = true};
  }
  // Its object goes, and the watch tells of it.
  void delete_node(Look why = Look::Fell) {
    nodes.erase("n1");
    incidents->look_at(departed(), why);
  }
  [[nodiscard]] bool closed() const { return incidents->open_incidents() == 0; }

  DeletedTest() { add_pod("web-0"); }
};

TEST_F(DeletedTest, a_ready_node_that_is_deleted_opens_an_incident) {
  take_up_nodes(on_deleted());
  delete_node();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(story.records.front().reason, Reason::NodeDeleted);
  EXPECT_EQ(story.records.front().node_uid, Uid("node-1"));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(DeletedTest, a_node_that_was_held_and_well_is_held_when_it_is_deleted) {
  take_up_nodes(on_deleted());
  cluster::NodeView gone = departed();
  gone.hold = "its disk is being saved";
  nodes.erase("n1");
  incidents->look_at(gone, Look::Fell);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
}

// A proxy answers, or a server that is only starting; its list shows the node.
TEST_F(DeletedTest, a_404_that_no_list_bears_out_is_no_evidence) {
  take_up_nodes(on_deleted());
  node_answer = status(404, "NotFound", "n1");
  incidents->look_at(departed(), Look::Fell);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::Unreadable), 1U);
  nodes.clear();
  nodes_answer = broken();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  nodes_answer = status(404, "NotFound", "n1");  // a proxy that says so of everything
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  nodes_answer = {.body = "{}"};
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  nodes_answer = {};
  run_for(1min);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(DeletedTest, nor_does_it_end_what_is_under_way) {
  take_up_nodes();
  node_answer = status(404, "NotFound", "n1");
  tell(Look::Fell);
  run_for(10s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  node_answer = {};
  run_for(1min);
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(DeletedTest, a_hold_outlives_it_for_the_next_leader_too) {
  scripts["web-0"] = {broken()};
  take_up_nodes(on_deleted());
  tell(Look::Fell);
  run_for(2s);
  EXPECT_EQ(deletes().size(), 1U);
  nodes["n1"].annotations["moonfence.io/hold"] = "disk being saved";
  run_for(10s);
  incidents.reset();
  journal.reset();
  nodes.erase("n1");
  scripts.clear();
  restart();
  incidents->policies_changed();
  const auto nobody = [](const NodeName&) -> const cluster::NodeView* { return nullptr; };
  run_for(2s);
  incidents->take_up_deleted(nobody, [](const NodeName&) { return true; });
  run_for(1min);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_TRUE(pods.contains("web-0"));
}

// Somebody deletes the Node of a machine that lives, and something makes it anew before its kubelet
// does.
TEST_F(DeletedTest, a_new_node_that_no_kubelet_has_written_proves_nothing_of_the_old_machine) {
  bind_at("web-0", "2026-01-02T04:00:00Z");
  scripts["web-0"] = {broken()};
  take_up_nodes(on_deleted());
  delete_node();
  run_for(1s);
  nodes["n1"] = {.ready = "",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "",
                 .created = "2026-01-02T05:05:00Z"};
  tell(Look::Changed);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_GE(story.count(Record::Kind::IncidentClosed, Reason::NodeReplaced), 1U);
}

TEST_F(DeletedTest, without_such_a_policy_it_is_left_to_kubernetes) {  // rows NB-12, E-20
  take_up_nodes();
  delete_node();
  run_for(10min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(made_ids, 0);
}

TEST_F(DeletedTest, an_open_incident_goes_on_and_only_those_who_say_so_judge) {
  add_pod("app-0", "n1", "db", "other");
  take_up_nodes();
  const auto late = named_policy(
      "late", "return fence.delete_pod('down')",
      "select = { labels = 'app=other' }, trigger = { failures = 2, interval = '30s' },");
  const auto deleted = named_policy(
      "deleted",
      "if node.ready_status ~= 'deleted' then return fence.wait('not yet', 60) end "
      "return fence.delete_pod('node ' .. tostring(node.exists))",
      "select = { labels = 'app=web' }, trigger = { deleted = true, live_kubelet = true },");
  activate({binding_of(late), binding_of(deleted)});
  tell(Look::Fell);
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{});
  delete_node(Look::Changed);
  run_for(20min);
  EXPECT_EQ(deletes(), Lines{"web-0 20s"});
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::NodeUnknown), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(made_ids, 1);
}

TEST_F(DeletedTest, whatever_keeps_the_node_from_being_read_is_no_evidence) {
  take_up_nodes(on_deleted());
  incidents->look_at(departed(), Look::Fell);
  node_answer = broken();
  run_for(1min);
  node_answer = {.status = 404, .body = "404 page not found"};
  run_for(1min);
  node_answer = status(403, "Forbidden", "n1");
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::Unreadable), 1U);
  nodes.erase("n1");
  ASSERT_TRUE(run_until([this] { return !deletes().empty(); }, 1min));
}

TEST_F(DeletedTest, a_404_that_took_longer_than_a_second_is_no_evidence) {
  take_up_nodes(on_deleted());
  http.on(port::Method::Get, "/api/v1/nodes/*", [](const test::FakeRequest&) {
    test::FakeAnswer gone = status(404, "NotFound", "n1");
    gone.delay = 1100ms;
    return gone;
  });
  nodes_answer.delay = 1100ms;  // of the second read, by which it is believed
  delete_node();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(DeletedTest, a_node_of_its_name_with_another_uid_closes_it) {
  take_up_nodes(on_deleted("return fence.wait('later', 30)"));
  delete_node();
  run_for(5s);
  nodes["n1"] = {.uid = "node-2"};
  run_for(1min);
  EXPECT_EQ(closed_by(), Reason::NodeReplaced);
  EXPECT_EQ(deletes(), Lines{});
}

// Between the 404 and the list a machine took the name, and a pod was bound to it.
TEST_F(DeletedTest, a_pod_that_was_listed_after_the_404_waits_for_another_one) {
  take_up_nodes(on_deleted());
  add_pod("web-9");
  list_answer.body = nlohmann::json{
      {"kind", "PodList"},
      {"apiVersion", "v1"},
      {"metadata", {{"resourceVersion", "9"}}},
      {"items",
       {pods["web-9"]}}}.dump();
  list_answer.delay = 500ms;
  delete_node();
  run_for(300ms);
  nodes["n1"] = {.ready = "True", .uid = "node-2", .tainted = false, .boot_id = "boot-2"};
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(closed_by(), Reason::NodeReplaced);
}

TEST_F(DeletedTest, the_same_node_still_there_is_judged_as_ever) {
  take_up_nodes(on_deleted());
  nodes["n1"].ready = "True";
  incidents->look_at(departed(), Look::Fell);
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(DeletedTest, a_policy_that_wants_silence_waits_until_the_lease_has_stood_still) {
  take_up_nodes(on_deleted("return fence.delete_pod('gone')", ""));
  delete_node();
  run_for(39s);
  EXPECT_EQ(deletes(), Lines{});
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{"web-0 40s"});
}

TEST_F(DeletedTest, attachments_go_as_usual_and_nothing_is_released_or_tainted) {
  pods.clear();
  const std::string attachment = add_pod_with_volume("web-0");
  release.on = true;
  quarantine = Quarantine::Always;
  take_up_nodes(
      policy_of("return fence.delete_pod_and_attachments('gone', { release = true })",
                "trigger = { deleted = true, live_kubelet = true }, needs = { 'volumes' },"));
  delete_node();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyReleases), 0U);
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::SetsQuarantine), 0U);
}

TEST_F(DeletedTest, observing_records_and_sends_nothing) {
  take_up_nodes(on_deleted(), Mode::Observe);
  delete_node();
  ASSERT_TRUE(run_until([this] { return closed(); }));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
}

TEST_F(DeletedTest, who_takes_over_judges_what_it_saw_go) {
  take_up_nodes(on_deleted());
  incidents->step_down();
  delete_node();
  run_for(5s);
  EXPECT_EQ(deletes(), Lines{});
  incidents->lead();
  incidents->look_at(departed(), Look::TookOver);
  ASSERT_TRUE(run_until([this] { return closed() && !deletes().empty(); }));
  EXPECT_EQ(story.count(Record::Kind::IncidentOpened, Reason::TookOver), 1U);
}

// The pod is gone, its attachment is not, the engine is, and then the node's object is.
struct DeletedTakeOverTest : DeletedTest {
  std::string attachment;

  void crash_and_restart(const std::shared_ptr<const policy::Policy>& policy, bool known = true) {
    pods.clear();
    attachment = add_pod_with_volume("web-0");
    crash_before_the_attachment(policy);
    nodes.erase("n1");
    restart();
    if (known) {
      incidents->policies_changed();
    }
    run_for(1s);
  }
  // As app/ does every second.
  void review() {
    const auto none = [](const NodeName&) -> const cluster::NodeView* { return nullptr; };
    incidents->review(none);
    incidents->take_up_deleted(none, [](const NodeName&) { return true; });
  }
  static std::shared_ptr<const policy::Policy> deleter(const std::string& trigger) {
    return policy_of("return fence.delete_pod_and_attachments('gone')",
                     "trigger = { " + trigger + " }, needs = { 'volumes' },");
  }
};

TEST_F(DeletedTakeOverTest, a_record_that_names_the_node_goes_on) {
  crash_and_restart(deleter("deleted = true, live_kubelet = true"));
  review();
  ASSERT_TRUE(run_until([this] { return attachments.empty() && closed(); }));
  run_for(2s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(records.record("i1").closed->reason, Reason::Settled);
  EXPECT_EQ(made_ids, 1) << "it is the same incident";
}

TEST_F(DeletedTakeOverTest, without_such_a_policy_the_record_is_closed) {
  crash_and_restart(deleter("live_kubelet = true"));
  review();
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeGone);
}

TEST_F(DeletedTakeOverTest, as_long_as_nobody_knows_the_policies_the_record_is_kept) {
  const auto policy = deleter("deleted = true, live_kubelet = true");
  crash_and_restart(policy, /*known=*/false);
  active.activate(std::make_shared<const policy::PolicySet>());
  review();
  run_for(1s);
  EXPECT_FALSE(records.record("i1").closed);
  activate({binding_of(policy)});
  incidents->policies_changed();
  review();
  ASSERT_TRUE(run_until([this] { return attachments.empty() && closed(); }));
}

TEST_F(DeletedTakeOverTest, another_node_of_the_name_closes_the_record) {
  crash_and_restart(deleter("deleted = true, live_kubelet = true"));
  nodes["n1"] = {.uid = "node-2"};
  review();  // the node cache does not know it yet
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReplaced);
}

}  // namespace
}  // namespace moonfence::fence
