#include "fence/incident/incidents.h"

#include <algorithm>

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

TEST_F(IncidentsTest, a_fallen_node_s_pod_is_deleted_and_the_story_is_complete) {
  add_pod("web-0");
  take_up_nodes();
  run_incident();
  EXPECT_EQ(story.told(true),
            (Lines{"incident_opened node_unknown", "verdict policy_deletes_pod db/web-0",
                   "intent policy_deletes_pod db/web-0", "outcome done db/web-0",
                   "incident_closed settled"}));
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

// Decision 12: the toleration is about eviction, and we do not evict by a timer.
TEST_F(IncidentsTest, a_pod_that_tolerates_the_loss_of_its_node_for_ever_is_judged_like_others) {
  add_pod("web-0");
  for (const char* key : {"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"}) {
    pods["web-0"]["spec"]["tolerations"].push_back(
        {{"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}});
  }
  take_up_nodes();
  run_incident();
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// Whether the owner's kind is known is the policy's business: the engine asks about its pods.
TEST_F(IncidentsTest, a_pod_of_a_replication_controller_is_asked_about) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["ownerReferences"][0]["kind"] = "ReplicationController";
  pods["web-0"]["metadata"]["ownerReferences"][0]["apiVersion"] = "v1";
  take_up_nodes();
  run_incident();
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(IncidentsTest, the_reason_of_an_incident_is_how_the_node_was_found) {
  const auto opened = [this](const std::string& ready, Look why) {
    nodes["n1"].ready = ready;
    take_up_nodes();
    story.records.clear();
    incidents->look_at(view(), why);
    return story.records.at(0).reason;
  };
  EXPECT_EQ(opened("False", Look::Fell), Reason::NodeNotReady);
  EXPECT_EQ(opened("Unknown", Look::Fell), Reason::NodeUnknown);
  EXPECT_EQ(opened("", Look::Fell), Reason::ReadyMissing);
  EXPECT_EQ(opened("Unknown", Look::Swept), Reason::StartupSweep);  // row E-16
  EXPECT_EQ(opened("Unknown", Look::Expired), Reason::EntryExpired);
}

TEST_F(IncidentsTest, failures_are_retried_in_the_window_and_ever_more_seldom_after) {  // row E-07
  add_pod("web-0");
  add_pod("web-1");
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(3min);
  EXPECT_EQ(deletes(),
            (Lines{"web-0 0s", "web-1 0s", "web-0 5s", "web-0 10s", "web-0 15s", "web-0 20s",
                   "web-0 30s", "web-0 50s", "web-0 1m30s", "web-0 2m30s"}));
  run_for(2h);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(deletes().back(), "web-0 2h2m30s");
  scripts.erase("web-0");
  run_for(1min);
  EXPECT_FALSE(pods.contains("web-0"));
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// A webhook that refused for 90 s cost an hour: five tries, and then the cache entry's expiry.
TEST_F(IncidentsTest, what_a_webhook_refused_for_minutes_is_deleted_when_it_lets_go) {
  add_pod("web-0");
  scripts["web-0"] = {status(403, "Forbidden")};
  take_up_nodes();
  tell(Look::Fell);
  run_for(90s);
  scripts.erase("web-0");
  run_for(60s);
  EXPECT_FALSE(pods.contains("web-0"));
  EXPECT_EQ(made_ids, 1) << "by the same incident";
}

TEST_F(IncidentsTest,
       a_wait_that_lasts_is_told_with_the_policy_s_words_and_when_it_is_asked_again) {
  add_pod("web-0");
  take_up_nodes();
  activate({binding_of(named_policy("ceph", "return fence.wait('it may still write', 10)"))});
  tell(Look::Fell);
  run_for(100s);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::StillWaiting), 0U);
  run_for(20s);
  ASSERT_EQ(story.count(Record::Kind::IncidentHeld, Reason::StillWaiting), 1U);
  EXPECT_EQ(story.records.back().text,
            "pod db/web-0: policy ceph, it may still write; looked at again in 10s");
  run_for(1h);
  EXPECT_NEAR(static_cast<double>(story.count(Record::Kind::IncidentHeld, Reason::StillWaiting)),
              12, 2);
}

TEST_F(IncidentsTest, what_fails_for_a_minute_is_told_with_the_server_s_words_and_again) {
  add_pod("web-0");
  scripts["web-0"] = {status(403, "Forbidden")};
  take_up_nodes();
  tell(Look::Fell);
  run_for(45s);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::StillFailing), 0U);
  EXPECT_EQ(incidents->failing_incidents(), 0U);
  run_for(15s);
  ASSERT_EQ(story.count(Record::Kind::IncidentHeld, Reason::StillFailing), 1U);
  EXPECT_EQ(incidents->failing_incidents(), 1U);
  const std::string& told = story.records.back().text;
  EXPECT_TRUE(told.starts_with("pod db/web-0: refused; ")) << told;
  EXPECT_NE(told.find("HTTP 403"), std::string::npos) << told;
  run_for(1h);
  EXPECT_NEAR(static_cast<double>(story.count(Record::Kind::IncidentHeld, Reason::StillFailing)),
              12, 2);
  scripts.erase("web-0");
  run_for(2min);
  EXPECT_EQ(incidents->failing_incidents(), 0U);
}

// What another server says is no reason to ask this one before its time.
TEST_F(IncidentsTest,
       the_pause_that_the_server_asked_for_one_pod_is_kept_while_others_are_retried) {
  add_pod("web-0");
  add_pod("web-1");
  scripts["web-0"] = {status(429, "TooManyRequests", "web-0", {{"retry-after", "17"}})};
  scripts["web-1"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(21s);
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 0s", "web-1 5s", "web-1 10s", "web-1 15s",
                              "web-0 17s", "web-1 20s"}));
}

// A proxy answers for the server, and the pod is still there.
TEST_F(IncidentsTest, a_404_or_409_that_is_not_true_is_a_failure_like_others) {
  for (const auto& answer :
       {status(404, "NotFound", "web-0"), status(409, "Conflict"), status(410, "Gone")}) {
    story.records.clear();
    add_pod("web-0");
    scripts["web-0"] = {answer};
    take_up_nodes();
    tell(Look::Fell);
    run_for(7s);
    EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 0U);
    EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Replaced), 0U);
    scripts.erase("web-0");
    ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
    EXPECT_FALSE(pods.contains("web-0"));
    EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), 1U);
  }
}

TEST_F(IncidentsTest, nothing_happens_after_the_watch_said_ready) {  // row E-08
  add_pod("web-0");
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(7s);
  nodes["n1"].ready = "True";
  tell();
  const std::size_t requests = http.requests.size();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), requests + 1) << "but for its record, which is closed";
  EXPECT_EQ(http.requests.back().method, port::Method::Patch);
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 5s"}));
  EXPECT_EQ(closed_by(), Reason::NodeReady);
}

TEST_F(IncidentsTest, nothing_is_deleted_after_the_live_read_said_ready) {  // row E-08
  add_pod("web-0");
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(7s);
  nodes["n1"].ready = "True";  // the watch is silent about it
  run_for(1h);
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 5s"}));
  EXPECT_EQ(closed_by(), Reason::NodeReady);
}

TEST_F(IncidentsTest, a_node_that_is_gone_or_replaced_is_left_alone) {  // row E-20
  add_pod("web-0");
  take_up_nodes();
  tell(Look::Fell);
  nodes.clear();
  run_for(1min);
  EXPECT_EQ(closed_by(), Reason::NodeGone);
  nodes["n1"] = {};
  tell(Look::Fell);
  nodes["n1"].uid = "node-2";
  run_for(1min);
  EXPECT_EQ(closed_by(), Reason::NodeReplaced);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 0U);
}

TEST_F(IncidentsTest, a_404_that_names_no_node_is_no_deleted_node) {
  add_pod("web-0");
  take_up_nodes();
  node_answer = {.status = 404, .body = "404 page not found\n", .headers = {}};
  tell(Look::Fell);
  run_for(1s);
  EXPECT_EQ(story.told().back(), "incident_held unreadable");
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

TEST_F(IncidentsTest, without_the_taint_nothing_is_deleted_until_a_live_reading_shows_it) {
  add_pod("web-0");
  nodes["n1"].tainted = false;
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);  // one look by itself after 1 s
  EXPECT_EQ(reads(), (Lines{"pods 1s", "n1 1s"}));
  EXPECT_EQ(deletes(), Lines{});
  nodes["n1"].tainted = true;
  tell();
  run_for(1s);
  EXPECT_EQ(deletes(), Lines{"web-0 2s"});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AwaitingTaint), 1U);
}

TEST_F(IncidentsTest, a_belief_in_the_taint_is_not_enough) {
  add_pod("web-0");
  take_up_nodes();
  const cluster::NodeView believed = view();
  nodes["n1"].tainted = false;
  incidents->look_at(believed, Look::Fell);
  run_for(500ms);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told().back(), "incident_held awaiting_taint");
}

TEST_F(IncidentsTest, an_unreadable_list_backs_off_and_is_read_again) {
  add_pod("web-0");
  list_answer = broken();
  take_up_nodes();
  tell(Look::Fell);
  run_for(70s);
  EXPECT_EQ(deletes(), Lines{});
  Lines lists = reads();
  std::erase_if(lists, [](const std::string& line) { return line.starts_with("n1"); });
  EXPECT_EQ(lists, (Lines{"pods 0s", "pods 5s", "pods 15s", "pods 35s", "pods 1m5s"}));
  list_answer = {};
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes(), Lines{"web-0 1m35s"});
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, an_unreadable_node_backs_off_and_is_read_again) {
  add_pod("web-0");
  node_answer = broken();
  take_up_nodes();
  tell(Look::Fell);
  run_for(34s);
  EXPECT_EQ(deletes(), Lines{});
  node_answer = {};
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes(), Lines{"web-0 35s"});
}

TEST_F(IncidentsTest, a_run_of_failed_reads_is_one_record_and_the_next_run_another) {
  add_pod("web-0");
  scripts["web-0"] = {broken()};
  list_answer = broken();
  take_up_nodes();
  tell(Look::Fell);
  run_for(12s);  // unreadable at 0 s and 5 s
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::Unreadable), 1U);
  list_answer = {};
  run_for(5s);  // a pass at 15 s
  EXPECT_EQ(deletes(), Lines{"web-0 15s"});
  list_answer = broken();
  run_for(30s);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::Unreadable), 2U);
}

TEST_F(IncidentsTest, time_in_which_nothing_could_be_read_is_not_taken_from_the_window) {
  add_pod("web-0");
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell);
  run_for(1s);
  node_answer = broken();  // the API server is away for longer than the window
  run_for(60s);
  node_answer = {};
  run_for(40s);
  // Away from the pass at 5 s on; back at 1m10s. The four passes that were left still come.
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 1m10s", "web-0 1m15s", "web-0 1m20s",
                              "web-0 1m25s", "web-0 1m35s"}));
}

TEST_F(IncidentsTest, a_reading_that_news_has_overtaken_does_not_end_the_incident) {
  add_pod("web-0");
  node_answer.delay = 200ms;
  take_up_nodes();
  const cluster::NodeView fallen = view();
  incidents->look_at(fallen, Look::Fell);
  // The server answers while the node is Ready for a moment; the watch, after a gap, tells only
  // that it fell again. Its news come before the answer does.
  nodes["n1"].ready = "True";
  run_for(100ms);
  nodes["n1"].ready = "Unknown";
  incidents->look_at(fallen, Look::Fell);
  run_for(1s);
  EXPECT_EQ(deletes(), Lines{});
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, an_overtaken_reading_of_a_living_kubelet_does_not_hold_for_ever) {
  add_pod("web-0");
  node_answer.delay = 200ms;
  take_up_nodes(deleting_policy());
  const cluster::NodeView fallen = view();
  incidents->look_at(fallen, Look::Fell);
  nodes["n1"].ready = "False";
  run_for(100ms);
  nodes["n1"].ready = "Unknown";
  incidents->look_at(fallen, Look::Changed);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsTest, observing_records_what_would_be_done_and_sends_nothing) {  // row E-27
  add_pods(40);
  take_up_nodes(deleting_policy(), Mode::Observe);
  run_incident();
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 40U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, off_opens_nothing) {
  add_pod("web-0");
  take_up_nodes();
  activate({});
  tell(Look::Fell);
  tell(Look::Expired);
  run_for(1h);
  EXPECT_EQ(story.records.size(), 0U);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(IncidentsTest, an_audit_that_cannot_be_written_deletes_nothing_until_it_can) {
  add_pod("web-0");
  take_up_nodes();
  story.full = true;
  tell(Look::Fell);
  run_for(7s);
  EXPECT_EQ(deletes(), Lines{});
  story.full = false;
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes(), Lines{"web-0 10s"});
}

TEST_F(IncidentsTest, a_wait_is_asked_again_after_its_time) {
  add_pod("web-0");
  take_up_nodes(
      policy_of("if cluster.nodes_ready < 5 then return fence.wait('too few nodes', 40) end "
                "return fence.delete_pod('dead')"));
  tell(Look::Fell);
  run_for(121s);
  Lines read = reads();
  std::erase_if(read, [](const std::string& line) { return line.starts_with("pods"); });
  EXPECT_EQ(read, (Lines{"n1 0s", "n1 40s", "n1 1m20s", "n1 2m"}));
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyWaits), 1U);  // the same each time
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(IncidentsTest, a_pod_that_a_finalizer_keeps_is_not_deleted_twice) {
  add_pod("web-0");
  add_pod("web-1");
  pods["web-0"]["metadata"]["finalizers"] = {"example.com/keep"};
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  scripts["web-0"] = {{.body = pods["web-0"].dump()}};
  scripts["web-1"] = {broken()};  // keeps the incident going
  take_up_nodes();
  tell(Look::Fell);
  run_for(24s);
  const Lines sent = deletes();
  EXPECT_EQ(std::count(sent.begin(), sent.end(), "web-0 0s"), 1);
  EXPECT_EQ(sent.size(), 6U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::MarkedOnly), 1U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::HandledBefore), 1U);
}

// A kubelet whose clock is an hour behind seemed to have been NotReady for an hour; one that is
// ahead was waited for until its stamp had come.
TEST_F(IncidentsTest, since_when_a_node_is_not_ready_is_told_by_our_own_clock) {
  for (const char* stamp : {"2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"}) {
    http.requests.clear();
    add_pod("web-0");
    nodes["n1"].ready = "False";
    nodes["n1"].since = stamp;
    take_up_nodes(
        policy_of("local lasted = cluster.now - node.not_ready_since "
                  "if lasted < 15 then return fence.wait('young', 15 - lasted) end "
                  "return fence.delete_pod('dead')",
                  "trigger = { failures = 1, live_kubelet = true },"));
    tell(Look::Fell);
    run_for(14s);
    EXPECT_EQ(deletes(), Lines{}) << stamp;
    run_for(20s);
    EXPECT_EQ(deletes().size(), 1U) << stamp;
  }
}

// It was taken for dealt with: nobody looked again, and the volume stayed attached for days.
TEST_F(IncidentsTest,
       a_pod_that_a_finalizer_keeps_keeps_its_incident_open_and_is_told_until_it_goes) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["finalizers"] = {"example.com/keep"};
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  scripts["web-0"] = {{.body = pods["web-0"].dump()}};
  take_up_nodes();
  tell(Look::Fell);
  run_for(30min);
  EXPECT_EQ(deletes().size(), 1U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_GE(story.count(Record::Kind::IncidentHeld, Reason::StillWaiting), 3U);
  pods.clear();
  run_for(61s);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// By a store that was restored unheard of, or it never went.
TEST_F(IncidentsTest, a_pod_that_was_deleted_and_is_there_again_is_deleted_again) {
  add_pod("web-0");
  const auto kept = pods;
  take_up_nodes();
  tell(Look::Fell);
  run_for(500ms);
  ASSERT_EQ(deletes().size(), 1U);
  pods = kept;
  run_for(1min);
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, a_lost_reply_is_retried_and_a_404_then_means_done) {
  add_pod("web-0");
  scripts["web-0"] = {test::FakeAnswer::lost(), status(404, "NotFound", "web-0")};
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent && record.attempt == 2) {
      pods.clear();  // the first call did it, late
    }
  };
  take_up_nodes();
  run_incident();
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 5s"}));
  EXPECT_EQ(story.told(),
            (Lines{"incident_opened node_unknown", "intent policy_deletes_pod db/web-0",
                   "outcome outcome_lost db/web-0", "intent policy_deletes_pod db/web-0",
                   "outcome already_gone db/web-0", "incident_closed settled"}));
}

TEST_F(IncidentsTest, a_refusal_of_the_server_is_no_tight_loop) {  // row E-24
  add_pod("web-0");
  scripts["web-0"] = {status(403, "Forbidden")};
  take_up_nodes();
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deletes().size(), 5U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Refused), 5U);
  run_for(1h);
  EXPECT_LE(deletes().size(), 5U + 3U + 60U);
}

TEST_F(IncidentsTest, the_server_s_retry_after_is_respected) {
  add_pod("web-0");
  scripts["web-0"] = {status(429, "TooManyRequests", "web-0", {{"retry-after", "12"}})};
  take_up_nodes();
  tell(Look::Fell);
  run_for(1s);
  scripts.clear();
  run_incident();
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-0 12s"}));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, three_hundred_pods_of_one_node) {
  add_pods(300);
  delete_delay = 10ms;
  take_up_nodes();
  run_incident();
  EXPECT_TRUE(pods.empty());
  EXPECT_EQ(deletes().size(), 300U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), 300U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, a_replacement_that_is_bound_to_the_dead_node_is_found_and_deleted_in_turn) {
  add_pod("web-0");
  take_up_nodes();
  tell(Look::Fell);
  run_for(3s);
  add_pod("web-1");  // the scheduler had not seen the taint
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 6s"}));
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s", "pods 1s", "n1 1s", "pods 6s", "n1 6s", "pods 21s",
                            "n1 21s"}));
  EXPECT_EQ(made_ids, 1);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, where_nothing_was_deleted_it_looks_once_more) {
  add_pod("web-0");
  take_up_nodes(on_every_signal("return fence.skip('none of mine')"));
  run_incident();
  EXPECT_EQ(reads(), (Lines{"pods 0s", "n1 0s", "pods 15s", "n1 15s"}));
}

TEST_F(IncidentsTest, two_nodes_that_are_down_at_once_do_not_know_each_other) {
  nodes["n2"] = {.uid = "node-2"};
  add_pod("web-0", "n1");
  add_pod("web-1", "n2");
  scripts["web-0"] = {broken()};
  take_up_nodes();
  tell(Look::Fell, "n1");
  tell(Look::Fell, "n2");
  EXPECT_EQ(incidents->open_incidents(), 2U);
  run_for(2s);
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 0s"}));
  EXPECT_EQ(incidents->open_incidents(), 2U);
  nodes["n1"].ready = "True";
  tell(Look::Changed, "n1");
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  run_for(20s);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(IncidentsTest, news_of_a_node_that_is_dealt_with_open_nothing_more) {  // row E-15
  add_pod("web-0");
  delete_delay = 2s;
  take_up_nodes();
  tell(Look::Fell);
  for (int i = 0; i < 10; ++i) {
    run_for(100ms);
    tell(i % 2 == 0 ? Look::Fell : Look::Expired);
  }
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(made_ids, 1);
  EXPECT_EQ(deletes(), Lines{"web-0 0s"});
}

TEST_F(IncidentsTest, a_change_that_is_no_fall_opens_nothing) {
  add_pod("web-0");
  take_up_nodes();
  tell(Look::Changed);
  nodes["n1"].ready = "True";
  tell(Look::Fell);  // cannot be; a belief of Ready never opens
  run_for(1h);
  EXPECT_EQ(story.records.size(), 0U);
}

TEST_F(IncidentsTest, a_cordon_or_a_taint_alone_opens_nothing) {
  add_pod("web-0");
  nodes["n1"] = {.ready = "True", .tainted = false};
  take_up_nodes();
  cluster::NodeCache cache(loop, log, 0s, *incidents);
  const auto told = [&](const std::string& ready, bool tainted, bool cordoned) {
    nodes["n1"] = {.ready = ready, .tainted = tainted, .unschedulable = cordoned};
    cache.on_apply(node_json("n1"));
    run_for(1s);
  };
  nodes["n2"] = {.ready = "True", .uid = "node-2", .tainted = false};
  cache.on_init();
  cache.on_init_apply(node_json("n1"));
  cache.on_init_apply(node_json("n2"));  // or all the workers are down at once
  cache.on_init_done();
  told("True", false, true);
  told("True", true, true);
  told("True", true, false);
  EXPECT_EQ(made_ids, 0);
  // Also while the node is down and its incident is over.
  told("Unknown", true, false);
  EXPECT_EQ(made_ids, 1);
  told("Unknown", true, true);
  told("Unknown", false, false);
  told("Unknown", true, false);
  EXPECT_EQ(made_ids, 1);
  EXPECT_EQ(deletes(), Lines{"web-0 3s"});
}

TEST_F(IncidentsTest, a_policy_without_sweep_ignores_nodes_that_were_down_at_the_start) {
  add_pod("web-0");
  take_up_nodes(policy_of("return fence.delete_pod('dead')", "trigger = { sweep = false },"));
  tell(Look::Swept);
  run_for(1min);
  EXPECT_EQ(story.records.size(), 0U);
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{"web-0 1m"});
}

TEST_F(IncidentsTest, stopping_in_the_middle_starts_nothing_and_records_what_has_left) {
  add_pods(kube::Destroyer::kMostAtOnce + 12);
  delete_delay = 300ms;
  take_up_nodes();
  tell(Look::Fell);
  run_for(100ms);
  incidents->stop();
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(closed_by(), Reason::Stopping);
  EXPECT_TRUE(goes_on()) << "the next leader finds its record";
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Done), kube::Destroyer::kMostAtOnce);
  EXPECT_EQ(made_ids, 1);
}

// The next leader opens another incident of that node.
TEST_F(IncidentsTest, nobody_goes_on_with_an_incident_that_had_nothing_to_write_down) {
  add_pod("web-0");
  take_up_nodes(on_every_signal("return fence.wait('not yet', 60)"));
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  incidents->stop();
  EXPECT_EQ(closed_by(), Reason::Stopping);
  EXPECT_FALSE(goes_on());
}

TEST_F(IncidentsTest, an_incident_that_is_over_goes_on_with_nobody) {
  add_pod("web-0");
  take_up_nodes();
  tell(Look::Fell);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
  EXPECT_FALSE(goes_on()) << "its record stands, and says that it is closed";
}

TEST_F(IncidentsTest, a_standby_remembers_and_does_nothing) {
  add_pod("web-0");
  take_up_nodes(policy_of("return fence.delete_pod('dead')", "trigger = { sweep = false },"));
  incidents->step_down();
  leadership.until = std::nullopt;
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(story.records.size(), 0U);
  incidents->lead();
  leadership.until = Moment::max();
  tell(Look::TookOver);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
  EXPECT_EQ(story.records.front().reason, Reason::TookOver);
  EXPECT_EQ(deletes().size(), 1U) << "it saw the node fall, so sweep = false does not matter";
}

TEST_F(IncidentsTest, stepping_down_ends_incidents_and_what_has_not_left) {
  add_pods(kube::Destroyer::kMostAtOnce + 12);
  delete_delay = 300ms;
  take_up_nodes();
  tell(Look::Fell);
  run_for(100ms);
  leadership.until = std::nullopt;
  incidents->step_down();
  EXPECT_EQ(closed_by(), Reason::SteppedDown);
  run_for(1min);
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
}

// The renewals are late: still the leader, but not for as long as a deletion may take. The pods
// must not be forgotten over it.
TEST_F(IncidentsTest, what_a_short_term_forbids_is_done_in_the_next) {
  add_pod("web-0");
  take_up_nodes();
  leadership.until = loop.now() + 2s;
  tell(Look::Fell);
  run_for(2s);
  EXPECT_EQ(deletes().size(), 0U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotLeader), 1U);
  leadership.until = Moment::max();
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
  EXPECT_EQ(deletes().size(), 1U);
}

TEST_F(IncidentsTest, what_waits_for_the_wire_is_refused_when_the_node_comes_back) {
  add_pod("web-0");
  take_up_nodes();
  // The credentials of the deletion, the third request, are late.
  story.hook = [this](const Record& record) {
    credentials.late = record.kind == Record::Kind::Intent;
  };
  tell(Look::Fell);
  run_for(100ms);
  nodes["n1"].ready = "True";
  tell();
  credentials.answer(credentials.waiting);
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told().back(), "refusal incident_closed db/web-0");
}

TEST_F(IncidentsTest, a_node_that_comes_back_in_the_middle_is_told_of_with_what_was_left) {
  add_pods(12);
  for (int i = 1; i < 12; ++i) {
    scripts["web-" + std::to_string(1000 + i)].assign(5, broken());
  }
  take_up_nodes();
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"].ready = "True";
  tell();
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  EXPECT_EQ(story.records.back().text,
            "1 of 12 pods done; not: db/web-1001, db/web-1002, db/web-1003, db/web-1004, "
            "db/web-1005, db/web-1006, db/web-1007, db/web-1008 and 3 more");
}

TEST_F(IncidentsTest, it_can_be_destroyed_at_any_moment) {
  for (const Duration after : {0ms, 5ms, 15ms, 25ms, 400ms, 1100ms, 6000ms, 11000ms}) {
    pods.clear();
    add_pods(100);
    scripts["web-1000"] = {broken()};
    node_answer.delay = 10ms;
    list_answer.delay = 20ms;
    delete_delay = 500ms;
    take_up_nodes();
    tell(Look::Fell);
    run_for(after);
    incidents.reset();
    const std::size_t intents = story.count(Record::Kind::Intent, Reason::PolicyDeletesPod);
    run_for(1min);
    EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyDeletesPod), intents);
    EXPECT_EQ(http.open_exchanges(), 0U);
    EXPECT_EQ(actions->in_flight(), 0U);
  }
}

TEST_F(IncidentsTest, it_can_be_destroyed_with_dead_incidents_not_yet_buried) {
  add_pod("web-0");
  take_up_nodes();
  tell(Look::Fell);
  nodes["n1"].ready = "True";
  tell();
  incidents.reset();
  run_for(1min);
  EXPECT_EQ(deletes(), Lines{});
}

}  // namespace
}  // namespace moonfence::fence
