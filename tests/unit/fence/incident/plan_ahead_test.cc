// What is made ready while the node's taint is awaited, and that nothing is done by it.

#include "fence/incident/plan_ahead.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "unit/fence/volume_releaser_fixture.h"

namespace moonfence::fence {
namespace {

// Deletes as long as the node carries no taint, which is what a preplanning sees.
constexpr const char* kUntilTainted = R"(
  if #node.taints == 0 then return fence.delete_pod('no taint') end
  return fence.skip('tainted'))";

struct PlanAheadTest : IncidentsTest {
  PlanAheadTest() { plans_ahead = true; }

  // The node is NotReady, and Kubernetes has not tainted it yet.
  void fall() {
    nodes["n1"].tainted = false;
    tell(Look::Fell);
  }
  void taint() {
    nodes["n1"].tainted = true;
    tell();
  }
  // "GET pods", "POST configmaps": what was sent from the index on, without Leases.
  [[nodiscard]] Lines sent_since(std::size_t index) const {
    Lines lines;
    for (; index < http.requests.size(); ++index) {
      const test::FakeRequest& request = http.requests[index];
      // Who holds the namespace is read beside the record.
      const bool of_namespace = request.path == "/api/v1/namespaces/" + name_in(request);
      if (request.path.find("/leases") == std::string::npos && !of_namespace) {
        lines.push_back(std::string(port::to_string(request.method)) + " " + name_in(request));
      }
    }
    return lines;
  }
  [[nodiscard]] Lines steps() const {
    Lines lines;
    for (const auto& step : records.record("i1").steps) {
      lines.push_back(step.pod.name + (step.sent ? " sent" : ""));
    }
    return lines;
  }
};

TEST_F(PlanAheadTest, at_the_taint_only_the_node_is_read_before_the_deletions) {
  add_pod("web-0");
  add_pod("web-1");
  take_up_nodes();
  fall();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), (Lines{"GET pods", "GET n1", "POST configmaps"}));
  EXPECT_EQ(steps(), (Lines{"web-0", "web-1"}));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.told(true),
            (Lines{"incident_opened node_unknown", "incident_held awaiting_taint"}))
      << "what was found ahead is told to nobody";

  const std::size_t before = http.requests.size();
  list_answer.delay = 3ms;
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET n1", "DELETE web-0", "GET pods", "DELETE web-1"}))
      << "the server need not write a list before it hears of the first deletion";
  EXPECT_EQ(deletes(), (Lines{"web-0 10ms", "web-1 10ms"}));
  EXPECT_EQ(story.told(true),
            (Lines{"incident_opened node_unknown", "incident_held awaiting_taint",
                   "verdict policy_deletes_pod db/web-0", "intent policy_deletes_pod db/web-0",
                   "outcome done db/web-0", "verdict policy_deletes_pod db/web-1",
                   "intent policy_deletes_pod db/web-1", "outcome done db/web-1"}))
      << "the first deletion leaves before anybody is asked about the second pod";
}

TEST_F(PlanAheadTest, the_others_are_asked_for_when_the_taint_is_late) {
  for (int i = 0; i < 30; ++i) {
    add_pod("web-" + std::to_string(10 + i));
  }
  pages = true;
  take_up_nodes();
  fall();
  run_for(99ms);
  EXPECT_EQ(sent_since(0), (Lines{"GET pods", "GET n1", "POST configmaps"}));
  EXPECT_EQ(steps().size(), 8U);
  std::size_t before = http.requests.size();
  run_for(10ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET pods", "PATCH moonfence-incident-i1"}));
  EXPECT_EQ(steps().size(), 30U);

  before = http.requests.size();
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before).front(), "GET n1");
  EXPECT_EQ(sent_since(before).at(1), "DELETE web-10");
  EXPECT_EQ(deletes().size(), 30U);
}

TEST_F(PlanAheadTest, without_it_a_pass_reads_and_records_for_itself) {
  add_pod("web-0");
  plans_ahead = false;
  take_up_nodes();
  fall();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), Lines{});
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), (Lines{"GET pods", "GET n1", "POST configmaps", "DELETE web-0"}));
}

TEST_F(PlanAheadTest, policies_are_asked_again_and_only_what_they_say_then_is_done) {
  add_pod("web-0");
  take_up_nodes(on_every_signal(kUntilTainted));
  fall();
  run_for(10ms);
  EXPECT_EQ(steps(), Lines{"web-0"});
  taint();
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 1U);
  EXPECT_TRUE(records.maps.empty()) << "a record in which nothing was meant is removed";
}

TEST_F(PlanAheadTest, a_node_that_is_ready_by_the_live_reading_keeps_its_pods) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(10ms);
  taint();
  nodes["n1"].ready = "True";
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  EXPECT_TRUE(records.maps.empty());
}

TEST_F(PlanAheadTest, a_node_that_comes_back_before_its_taint_leaves_no_record) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(10ms);
  EXPECT_EQ(steps(), Lines{"web-0"});
  nodes["n1"].ready = "True";
  tell();
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_TRUE(records.maps.empty());
  EXPECT_EQ(preplannings.open, 0U);
}

// The scheduler may have bound it before it saw the taint.
TEST_F(PlanAheadTest, a_pod_that_came_before_the_taint_is_dealt_with_like_the_others) {
  take_up_nodes();
  fall();
  run_for(10ms);
  add_pod("web-9");
  taint();
  run_for(5ms);
  EXPECT_EQ(deletes(), Lines{"web-9 10ms"});
}

TEST_F(PlanAheadTest, a_pod_that_changed_before_the_taint_is_judged_again) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["resourceVersion"] = "5";
  take_up_nodes(on_every_signal(R"(
    if pod.labels.go then return fence.delete_pod('it may') end
    return fence.skip('it may not'))"));
  fall();
  run_for(10ms);
  pods["web-0"]["metadata"]["resourceVersion"] = "6";
  pods["web-0"]["metadata"]["labels"]["go"] = "yes";
  list_answer.delay = 3ms;
  taint();
  run_for(1s);
  EXPECT_EQ(deletes(), Lines{"web-0 116ms"});
}

// Somebody says that one must stay while the taint is awaited.
struct KeptTest : PlanAheadTest {
  explicit KeptTest(int others = 0) {
    add_pod("web-0");
    add_pods(others);
    pods["web-0"]["metadata"]["resourceVersion"] = "5";
    take_up_nodes(on_every_signal(R"(
      if pod.labels.keep then return fence.skip('it stays') end
      return fence.delete_pod('its node is dead'))"));
    fall();
  }
  void keep(const std::string& pod = "web-0") {
    pods[pod]["metadata"]["resourceVersion"] = "6";
    pods[pod]["metadata"]["labels"]["keep"] = "yes";
  }
};

TEST_F(KeptTest, a_node_that_is_read_slowly_leaves_time_to_list_again) {
  run_for(10ms);
  keep();
  node_answer.delay = 60ms;
  taint();
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_TRUE(records.maps.empty());
}

// A finalizer holds it, and it is listed before its deletion is answered.
TEST_F(PlanAheadTest, that_a_pod_is_being_deleted_by_us_is_no_news) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["resourceVersion"] = "5";
  take_up_nodes();
  fall();
  run_for(10ms);
  scripts["web-0"] = {{.body = pods["web-0"].dump(), .delay = 20ms}};
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      pods["web-0"]["metadata"]["resourceVersion"] = "6";
      pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
    }
  };
  const std::size_t before = http.requests.size();
  taint();
  run_for(500ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET n1", "DELETE web-0", "GET pods"}))
      << "no pass because of it";
}

// All but the eight pods of the first page had to wait for the next pass.
TEST_F(PlanAheadTest, where_pods_cannot_be_listed_again_those_that_were_listed_ahead_go) {
  pages = true;
  add_pods(30);
  take_up_nodes();
  fall();
  run_for(10ms);
  int begun = 0;
  http.on(port::Method::Get, "/api/v1/namespaces/db/pods",
          [this, &begun](const test::FakeRequest& request) {
            const bool more = request.query.find("continue=") != std::string::npos;
            begun += more ? 0 : 1;
            return more ? list_pods(request) : broken();
          });
  taint();
  run_for(1s);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(deletes().size(), 30U);
}

TEST_F(PlanAheadTest, pods_that_stay_do_not_bring_the_list_before_the_first_deletion) {
  add_pod("web-0");
  add_pod("web-1");
  take_up_nodes(on_every_signal(R"(
    if pod.name == 'web-0' then return fence.skip('it stays') end
    return fence.delete_pod('its node is dead'))"));
  fall();
  run_for(10ms);
  const std::size_t before = http.requests.size();
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET n1", "DELETE web-1", "GET pods"}));
}

struct OneOfManyKeptTest : KeptTest {
  OneOfManyKeptTest() : KeptTest(99) {}
};

TEST_F(OneOfManyKeptTest, what_is_listed_again_before_it_is_judged_is_judged_as_it_is_now) {
  run_for(100ms);
  EXPECT_EQ(steps().size(), 100U);
  keep("web-1098");
  list_answer.delay = 0ms;
  taint();
  run_for(10s);
  EXPECT_EQ(deletes().size(), 99U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyDeletesPod), 99U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 1U);
}

TEST_F(KeptTest, what_changed_while_its_deletion_waits_is_judged_again) {
  records.delay = 100ms;
  run_for(10ms);
  keep();
  list_answer.delay = 3ms;
  taint();
  run_for(10s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyDeletesPod), 1U);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 1U);
}

// The node controller marks each of them NotReady at that moment.
TEST_F(PlanAheadTest, a_pod_whose_status_alone_changed_is_not_judged_again) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["resourceVersion"] = "5";
  take_up_nodes(on_every_signal("return fence.skip('not mine')"));
  fall();
  run_for(10ms);
  pods["web-0"]["metadata"]["resourceVersion"] = "6";
  pods["web-0"]["status"]["conditions"] = {{{"type", "Ready"}, {"status", "False"}}};
  list_answer.delay = 3ms;
  const std::size_t before = http.requests.size();
  taint();
  run_for(1s);
  EXPECT_EQ(sent_since(before), (Lines{"GET n1", "GET pods"}));
}

TEST_F(PlanAheadTest, whose_volume_it_is_tells_a_list_that_is_younger_than_the_taint) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(900ms);
  const std::size_t before = http.requests.size();
  taint();
  run_for(10ms);
  const auto sent = sent_since(before);
  EXPECT_NE(std::find(sent.begin(), sent.end(), "GET pods"), sent.end());
}

TEST_F(PlanAheadTest, what_could_not_be_read_ahead_is_asked_for_again) {
  add_pod("web-0");
  pods["web-0"]["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  int asked = 0;
  http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims/data-web-0",
          [&asked](const test::FakeRequest&) {
            return ++asked == 1 ? broken()
                                : test::FakeAnswer{.body = R"({"metadata":{"name":"data-web-0"}})"};
          });
  take_up_nodes(policy_of("return fence.delete_pod('dead')",
                          "trigger = { live_kubelet = true }, needs = { 'volumes' },"));
  fall();
  run_for(10ms);
  taint();
  run_for(10ms);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(deletes(), Lines{"web-0 10ms"});
}

// The pass's own list comes first then; what it needs to know about its pods was read a moment ago.
TEST_F(PlanAheadTest, what_was_read_ahead_is_not_read_again_where_the_node_is_slow) {
  add_pod("web-0");
  pods["web-0"]["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims/data-web-0",
          test::FakeAnswer{.body = R"({"metadata":{"name":"data-web-0"}})"});
  take_up_nodes(policy_of("return fence.delete_pod('dead')",
                          "trigger = { live_kubelet = true }, needs = { 'volumes' },"));
  fall();
  run_for(10ms);
  node_answer.delay = 50ms;
  taint();
  run_for(100ms);
  EXPECT_EQ(deletes(), Lines{"web-0 60ms"});
  EXPECT_EQ(http.count("/persistentvolumeclaims"), 1U);
}

TEST_F(PlanAheadTest, what_is_older_than_a_reading_may_be_is_not_taken) {
  add_pod("web-0");
  activate({binding_of(deleting_policy())});
  const IncidentContext around = surroundings();
  Authority authority;
  authority.node = NodeName("n1");
  authority.node_uid = Uid("node-1");
  const PassContext context = {
      .set = active.current(), .downtime = {}, .incident = IncidentId("i1"), .attempt = 1U};
  const auto aged = [&](Duration age) {
    Memory memory;
    PlanAhead preplanning(around, context, authority, memory);
    run_for(age);
    return preplanning.take(context).pods != nullptr;
  };
  EXPECT_TRUE(aged(999ms));
  EXPECT_FALSE(aged(1001ms));
}

TEST_F(PlanAheadTest, a_taint_that_comes_late_finds_nothing_prepared) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(3s);  // after a second the engine looks for the taint by itself, in vain
  const std::size_t before = http.requests.size();
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before),
            (Lines{"GET pods", "GET n1", "PATCH moonfence-incident-i1", "DELETE web-0"}));
}

TEST_F(PlanAheadTest, a_list_that_is_under_way_is_waited_for) {
  add_pod("web-0");
  take_up_nodes();
  list_answer.delay = 100ms;
  fall();
  run_for(50ms);
  taint();
  run_for(100ms);
  EXPECT_EQ(sent_since(0),
            (Lines{"GET pods", "GET n1", "GET n1", "GET pods", "POST configmaps", "DELETE web-0"}));
  EXPECT_EQ(deletes(), Lines{"web-0 100ms"}) << "by the list that was under way";
}

TEST_F(PlanAheadTest, a_list_that_hangs_is_not_waited_for) {
  add_pod("web-0");
  take_up_nodes();
  list_answer.delay = 900ms;
  fall();
  run_for(50ms);
  list_answer.delay = 1ms;
  taint();
  run_for(50ms);
  EXPECT_EQ(sent_since(0),
            (Lines{"GET pods", "GET n1", "GET n1", "GET pods", "POST configmaps", "DELETE web-0"}));
  EXPECT_EQ(deletes().size(), 1U) << "by the pass's own list";
}

TEST_F(PlanAheadTest, of_a_node_that_is_up_after_all_no_list_is_made_again) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(10ms);
  const std::size_t before = http.requests.size();
  taint();
  nodes["n1"].ready = "True";
  run_for(10ms);
  EXPECT_EQ(sent_since(before),
            (Lines{"GET n1", "PATCH moonfence-incident-i1", "DELETE moonfence-incident-i1"}));
}

TEST_F(PlanAheadTest, pods_whose_turn_had_not_come_are_handed_on) {
  add_pod("web-0");
  take_up_nodes();
  node_answer.delay = 100ms;
  fall();
  run_for(50ms);
  node_answer.delay = 1ms;
  list_answer.delay = 100ms;
  taint();
  run_for(50ms);
  EXPECT_EQ(sent_since(0),
            (Lines{"GET pods", "GET n1", "GET n1", "POST configmaps", "DELETE web-0", "GET pods"}));
  EXPECT_EQ(deletes().size(), 1U) << "by the list that was there, and not by the pass's own";
}

TEST_F(PlanAheadTest, a_record_that_is_being_written_is_not_written_twice) {
  add_pod("web-0");
  take_up_nodes();
  records.delay = 100ms;
  fall();
  run_for(50ms);
  taint();
  run_for(100ms);
  EXPECT_EQ(sent_since(0),
            (Lines{"GET pods", "GET n1", "POST configmaps", "GET n1", "GET pods", "DELETE web-0"}));
}

TEST_F(PlanAheadTest, a_record_that_could_not_be_written_ahead_is_written_by_the_pass) {
  add_pod("web-0");
  take_up_nodes();
  records.faults = {{.answer = broken()}};
  fall();
  run_for(10ms);
  EXPECT_EQ(records.maps.size(), 0U);
  const std::size_t before = http.requests.size();
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET n1", "POST configmaps", "DELETE web-0", "GET pods"}));
}

TEST_F(PlanAheadTest, a_list_that_failed_is_made_again) {
  add_pod("web-0");
  take_up_nodes();
  list_answer = broken();
  fall();
  run_for(10ms);
  list_answer = {};
  const std::size_t before = http.requests.size();
  taint();
  run_for(10ms);
  EXPECT_EQ(sent_since(before), (Lines{"GET pods", "GET n1", "POST configmaps", "DELETE web-0"}));
}

TEST_F(PlanAheadTest, other_policies_read_for_themselves) {
  add_pod("web-0");
  take_up_nodes();
  fall();
  run_for(10ms);
  activate({binding_of(on_every_signal("return fence.skip('not mine')"))});
  list_answer.delay = 500ms;
  taint();
  run_for(100ms);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 0U);
  run_for(20s);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicySkips), 1U);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_TRUE(records.maps.empty());
}

TEST_F(PlanAheadTest, what_would_only_be_observed_is_not_recorded) {
  add_pod("web-0");
  take_up_nodes(on_every_signal("return fence.delete_pod('its node is dead')"), Mode::Observe);
  fall();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), (Lines{"GET pods", "GET n1"}));
}

TEST_F(PlanAheadTest, what_the_guard_forbids_is_not_recorded) {
  add_pod("web-0");
  protections.namespaces = {Namespace("db")};
  take_up_nodes();
  fall();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), (Lines{"GET pods", "GET n1"}));
}

TEST_F(PlanAheadTest, a_policy_that_fails_ahead_has_not_failed) {
  add_pods(8);
  // Five failures in a row, and it would not be asked any more.
  take_up_nodes(on_every_signal(R"(
    if #node.taints == 0 then error('not yet') end
    return fence.delete_pod('its node is dead'))"));
  fall();
  run_for(10ms);
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyFailed), 0U);
  taint();
  run_for(10ms);
  EXPECT_EQ(deletes().size(), 8U);
}

TEST_F(PlanAheadTest, nothing_is_read_while_the_brake_holds) {
  add_pod("web-0");
  take_up_nodes();
  incidents->census_changed(census_of(10, 9));
  fall();
  run_for(10ms);
  EXPECT_EQ(sent_since(0), Lines{});
}

TEST_F(PlanAheadTest, of_many_nodes_some_are_planned_ahead) {
  take_up_nodes();
  incidents->census_changed(census_of(100, 12));
  for (int i = 1; i <= 12; ++i) {
    const std::string name = "n" + std::to_string(i);
    nodes[name] = {.uid = "node-" + std::to_string(i), .tainted = false};
    tell(Look::Fell, name);
  }
  EXPECT_EQ(preplannings.open, Preplannings::kMost);
  run_for(900ms);
  const Lines sent = sent_since(0);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), "GET pods"), 4);
}

TEST_F(PlanAheadTest, all_of_a_large_node_are_recorded_before_the_taint) {
  add_pods(100);
  take_up_nodes();
  fall();
  run_for(100ms);
  EXPECT_EQ(steps().size(), 100U);
  const int writes = records.writes;
  EXPECT_LE(writes, 4);
  taint();
  run_until([this] { return !deletes().empty(); });
  EXPECT_EQ(records.writes, writes);
  run_for(100ms);
  EXPECT_EQ(deletes().size(), 100U);
}

TEST_F(PlanAheadTest, connections_for_many_are_opened_before_the_taint) {
  add_pods(200);
  take_up_nodes();
  fall();
  run_for(200ms);
  const auto opened = [this] {
    return std::count_if(http.requests.begin(), http.requests.end(),
                         [](const auto& request) { return request.path == "/livez"; });
  };
  EXPECT_EQ(opened(), kube::Destroyer::kMostAtOnce);
  taint();
  run_until([this] { return deletes().size() == 200; });
  EXPECT_EQ(opened(), kube::Destroyer::kMostAtOnce) << "the record stood already";
}

// --- with attachments: once a pod is gone only the record knows whose are still to go (H41)

struct PlannedAheadStorageTest : StorageTest {
  std::string attachment;

  PlannedAheadStorageTest() {
    plans_ahead = true;
    attachment = add_pod_with_volume("web-0");
    nodes["n1"].tainted = false;
  }
  void taint_after(Duration wait) {
    tell(Look::Fell);
    run_for(wait);
    nodes["n1"].tainted = true;
    tell();
  }
  [[nodiscard]] bool is_recorded(const char* uid) const {
    return !records.maps.empty() && records.record("i1").find(Uid(uid)) != nullptr;
  }
};

TEST_F(PlannedAheadStorageTest, attachments_are_foreseen_with_their_pods) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(10ms);
  EXPECT_TRUE(is_recorded("uid-web-0"));
  EXPECT_TRUE(is_recorded("va-web-0"));
  EXPECT_EQ(deleted(), Lines{});
  nodes["n1"].tainted = true;
  tell();
  run_for(500ms);
  EXPECT_EQ(records.writes, 1) << "before what came of it is written behind";
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(PlannedAheadStorageTest, one_that_was_not_foreseen_is_recorded_before_its_pod_goes) {
  take_up_nodes(on_every_signal_with_volumes(R"(
    if #node.taints == 0 then return fence.delete_pod('untainted') end
    return fence.delete_pod_and_attachments('tainted'))"));
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      EXPECT_TRUE(is_recorded("va-web-0"));
    }
  };
  taint_after(10ms);
  EXPECT_FALSE(is_recorded("va-web-0"));
  run_for(500ms);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  run_for(2s);
  EXPECT_EQ(records.record("i1").find(Uid("uid-web-0"))->why, "tainted");
}

TEST_F(PlannedAheadStorageTest, what_was_foreseen_and_is_not_wanted_takes_its_attachments_along) {
  take_up_nodes(on_every_signal_with_volumes(R"(
    if #node.taints == 0 then return fence.delete_pod_and_attachments('untainted') end
    return fence.delete_pod('tainted'))"));
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      EXPECT_TRUE(is_recorded("uid-web-0"));
      EXPECT_FALSE(is_recorded("va-web-0")) << "the next leader would take it for wanted";
    }
  };
  taint_after(10ms);
  EXPECT_TRUE(is_recorded("va-web-0"));
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

// The next leader would detach it when somebody else has deleted the pod.
TEST_F(PlannedAheadStorageTest, what_is_not_wanted_leaves_the_record_at_once) {
  add_pod("web-1");
  take_up_nodes(on_every_signal_with_volumes(R"(
    if #node.taints == 0 or pod.name == 'web-1' then
      return fence.delete_pod_and_attachments('untainted')
    end
    return fence.skip('tainted'))"));
  delete_delay = 4s;
  taint_after(10ms);
  EXPECT_TRUE(is_recorded("va-web-0"));
  run_for(100ms);
  EXPECT_EQ(deleted(), Lines{"pod web-1"}) << "which is not answered yet";
  EXPECT_FALSE(is_recorded("uid-web-0"));
  EXPECT_FALSE(is_recorded("va-web-0"));
  EXPECT_TRUE(is_recorded("uid-web-1"));
}

TEST_F(PlannedAheadStorageTest, an_attachment_that_another_pod_s_verdict_wants_stays) {
  add_pod_with_volume("web-1", "n1", "vol-web-0");  // attachment va-web-1, of both
  take_up_nodes(on_every_signal_with_volumes(R"(
    if #node.taints == 0 or pod.name == 'web-1' then
      return fence.delete_pod_and_attachments('untainted')
    end
    return fence.delete_pod('tainted'))"));
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent && record.pod_uid == Uid("uid-web-1")) {
      EXPECT_TRUE(is_recorded("va-web-1"));
    }
  };
  taint_after(10ms);
  run_for(1s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "pod web-1", "attachment " + attachment}));
}

// The attachment was planned anew for the second pod when the first one's deletion waited already:
// nobody asked for it to be written, and both waited for ever.
TEST_F(PlannedAheadStorageTest, what_is_planned_anew_for_another_pod_is_written_for_both) {
  add_pod_with_volume("web-1", "n1", "vol-web-0");
  take_up_nodes(on_every_signal_with_volumes(R"(
    if pod.name == 'web-1' then
      return fence.delete_attachments('first', pod.volumes,
                                      { order = 'attachments-first', wait = '60s', on_timeout = 'hold' })
    end
    return fence.delete_pod_and_attachments('its node is dead'))"));
  taint_after(10ms);
  run_for(1s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(PlannedAheadStorageTest,
       a_pod_that_is_to_wait_for_its_attachments_is_not_recorded_any_more) {
  take_up_nodes(on_every_signal_with_volumes(R"(
    if #node.taints == 0 then return fence.delete_pod('untainted') end
    return fence.delete_attachments('first', pod.volumes,
                                    { order = 'attachments-first', wait = '60s', on_timeout = 'hold' }))"));
  taint_after(10ms);
  EXPECT_TRUE(is_recorded("uid-web-0"));
  run_for(2s);
  EXPECT_EQ(deleted(), Lines{}) << "the pod is not being deleted";
  EXPECT_FALSE(is_recorded("uid-web-0"));
}

TEST_F(PlannedAheadStorageTest, another_boot_in_between_spoils_nothing) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(10ms);
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].tainted = true;
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent && record.pod_uid == Uid("uid-web-0")) {
      EXPECT_EQ(records.record("i1").boot_id, "boot-2");
      EXPECT_FALSE(records.record("i1").find(Uid("va-web-0"))->outcome.has_value());
    }
  };
  tell();
  run_for(1s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

struct PlannedAheadReleaseTest : VolumeReleaserTest {
  PlannedAheadReleaseTest() {
    plans_ahead = true;
    nodes["n1"].tainted = false;
    add("web-0", "vol-1");
  }
  [[nodiscard]] bool promises_release() const {
    const auto record = records.record("i1");
    const auto* step = record.find(Uid("va-web-0"));
    return step != nullptr && step->release.has_value();
  }
};

TEST_F(PlannedAheadReleaseTest, a_release_that_is_not_wanted_any_more_leaves_the_record_first) {
  take_up_nodes(on_every_signal_with_volumes(
      "return fence.delete_pod_and_attachments('dead', { release = #node.taints == 0 })"));
  bool promised = true;
  story.hook = [this, &promised](const Record& record) {
    if (record.kind == Record::Kind::Intent && record.pod_uid == Uid("uid-web-0")) {
      promised = promises_release();
    }
  };
  tell(Look::Fell);
  run_for(10ms);
  EXPECT_TRUE(promises_release());
  nodes["n1"].tainted = true;
  tell();
  run_for(1s);
  EXPECT_FALSE(promised) << "the next leader would release it";
  EXPECT_EQ(deleted().front(), "pod web-0");
}

TEST_F(PlannedAheadStorageTest, the_next_leader_finishes_what_was_begun) {
  storage_lets_go = false;
  take_up_nodes(detaching_policy());
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Outcome && record.pod_uid == Uid("uid-web-0")) {
      leadership.until.reset();  // nothing more leaves
    }
  };
  taint_after(10ms);
  run_for(100ms);
  ASSERT_EQ(deleted(), Lines{"pod web-0"});
  story.hook = [](const Record&) {};
  incidents.reset();
  journal.reset();
  leadership.until = Moment::max();
  storage_lets_go = true;
  restart();
  tell(Look::Swept);
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 10s));
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

}  // namespace
}  // namespace moonfence::fence
