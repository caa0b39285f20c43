#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

// Row E-13 across a crash, hazard H41.
struct TakeOverTest : StorageTest {
  std::string attachment;

  TakeOverTest() { attachment = add_pod_with_volume("web-0"); }

  void crash_in_between() { crash_before_the_attachment(detaching_policy()); }
};

TEST_F(TakeOverTest, the_next_leader_finishes_what_was_begun) {
  crash_in_between();
  restart();
  tell(Look::Swept);
  EXPECT_EQ(incidents->open_incidents(), 0U) << "before the records are known";
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 10s));
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  run_for(2s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  const IncidentRecord record = records.record("i1");
  EXPECT_EQ(record.leaders.size(), 2U);
  EXPECT_EQ(record.closed->reason, Reason::Settled);
  EXPECT_TRUE(record.find(Uid("va-web-0"))->gone.has_value());
  EXPECT_EQ(made_ids, 1) << "it is the same incident";
}

// Nothing runs in a pod that has finished and is to go: its volume was as good as judged.
TEST_F(TakeOverTest, also_of_a_pod_that_had_finished) {
  pods["web-0"]["status"]["phase"] = "Failed";
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:01:00Z";
  crash_in_between();
  restart();
  tell(Look::Swept);
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 10s));
}

TEST_F(TakeOverTest, a_node_that_is_back_closes_what_was_left_open) {
  crash_in_between();
  nodes["n1"].ready = "True";
  restart();
  run_for(1s);
  const cluster::NodeView ready = view();
  incidents->review([&ready](const NodeName&) { return &ready; });
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReady);
  EXPECT_FALSE(records.record("i1").find(Uid("va-web-0"))->settled());
}

TEST_F(TakeOverTest, another_node_of_the_name_is_another_incident) {
  crash_in_between();
  nodes["n1"].uid = "node-2";
  restart();
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(records.record("i1").closed->reason, Reason::NodeReplaced);
}

TEST_F(TakeOverTest, another_attachment_of_the_name_is_left_alone) {
  crash_in_between();
  attachments[attachment]["metadata"]["uid"] = "va-new";
  restart();
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(TakeOverTest, without_the_records_nothing_is_opened) {
  crash_in_between();
  add_pod_with_volume("web-1");
  http.on(port::Method::Get, test::RecordServer::kAll,
          [](const test::FakeRequest&) { return broken(); });
  restart();
  tell(Look::Swept);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_FALSE(journal->problem().empty());
}

// Seed 429427: it led for a moment, was asked to leave, and opened what its first records told.
TEST_F(TakeOverTest, what_was_left_open_is_not_opened_by_one_who_leaves) {
  crash_in_between();
  restart();
  tell(Look::Swept);
  incidents->stop();
  run_for(1min);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_FALSE(records.record("i1").closed.has_value());
}

TEST_F(TakeOverTest, what_cannot_be_recorded_is_not_deleted) {
  records.faults.assign(5, {.answer = status(403, "Forbidden")});  // a quota of ConfigMaps
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deleted(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotRecorded), 5U);
  run_for(10s);  // it was raised
  EXPECT_EQ(deleted().size(), 2U);
}

// The leader is killed when its deletion was done and before that was written. The next one closed
// the record and said nothing of the pod.
TEST_F(TakeOverTest, of_a_pod_that_is_gone_the_next_leader_writes_what_became_of_it) {
  take_up_nodes();
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Outcome) {
      leadership.until.reset();  // nothing more leaves, not even what came of it
    }
  };
  tell(Look::Fell);
  run_for(500ms);
  story.hook = [](const Record&) {};
  ASSERT_EQ(deleted(), Lines{"pod web-0"});
  ASSERT_FALSE(records.record("i1").steps.at(0).outcome);
  incidents.reset();
  journal.reset();
  leadership.until = Moment::max();
  restart();
  tell(Look::Swept);
  run_for(20s);
  ASSERT_EQ(incidents->open_incidents(), 0U);
  const IncidentRecord record = records.record("i1");
  EXPECT_EQ(record.closed->reason, Reason::Settled);
  EXPECT_EQ(record.steps.at(0).outcome, Reason::AlreadyGone);
  EXPECT_FALSE(record.steps.at(0).ended) << "nobody heard an answer: it may have been ours";
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(TakeOverTest, a_pod_that_no_list_shows_and_is_there_is_deleted) {
  take_up_nodes();
  scripts["web-0"] = {broken()};
  tell(Look::Fell);
  run_for(7s);
  const std::size_t before = deleted().size();
  scripts.clear();
  list_answer = {.body = R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]})"};
  run_for(4s);  // the next pass, by a cache that lags
  EXPECT_EQ(deleted().size(), before + 1);
  EXPECT_FALSE(pods.contains("web-0"));
}

TEST_F(TakeOverTest, a_pod_that_nobody_can_look_at_keeps_the_incident_open) {
  take_up_nodes();
  scripts["web-0"] = {broken()};
  tell(Look::Fell);
  run_for(7s);
  list_answer = {.body = R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]})"};
  look_answer = broken();
  run_for(10min);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 0U);
  pods.clear();
  look_answer = {};
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 1U);
}

TEST_F(TakeOverTest, the_first_record_has_pods_and_attachments_and_is_one_write) {
  add_pod_with_volume("web-1");
  records.delay = 10ms;
  take_up_nodes(detaching_policy());
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent && records.writes == 1) {
      const IncidentRecord stored = records.record("i1");
      for (const char* uid : {"uid-web-0", "va-web-0", "uid-web-1", "va-web-1"}) {
        EXPECT_NE(stored.find(Uid(uid)), nullptr) << uid;
      }
    }
  };
  tell(Look::Fell);
  run_for(500ms);
  EXPECT_EQ(deleted().size(), 4U);
  EXPECT_EQ(records.writes, 1);
}

TEST_F(TakeOverTest, the_brake_counts_what_the_leader_before_did) {
  IncidentRecord record;
  record.node = NodeName("n9");
  record.node_uid = Uid("node-9");
  record.opened = wall_now();
  for (int i = 0; i < 10; ++i) {
    record.id = IncidentId("old" + std::to_string(i));
    record.node = NodeName("old" + std::to_string(i));
    record.closed = {.at = wall_now(), .reason = Reason::Settled};
    IncidentRecord::Step step;
    step.pod = {.space = Namespace("db"), .name = "x"};
    step.pod_uid = Uid("x");
    step.policy = "p";
    step.sent = wall_now();
    record.steps = {step};
    records.put(record);
  }
  take_up_nodes(detaching_policy());
  restart();
  run_for(100ms);
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::TooManyInWindow), 1U);
}

}  // namespace
}  // namespace moonfence::fence
