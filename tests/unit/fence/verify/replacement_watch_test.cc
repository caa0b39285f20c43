#include "fence/verify/replacement_watch.h"

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

struct ReplacementWatchTest : IncidentsTest {
  std::vector<Moment> looks;  // lists of the namespace, whatever the node
  std::string name_asked;
  nlohmann::json owner = {
      {"kind", "StatefulSet"}, {"metadata", {{"uid", "set-1"}}}, {"spec", {{"replicas", 9}}}};
  nlohmann::json events = nlohmann::json::array();
  Duration wait = 5min;
  std::optional<test::FakeAnswer> list_fault;
  loop::TurnQueue turns{loop};
  std::vector<loop::Timer> ends;

  ReplacementWatchTest() {
    add_pod("web-0");
    http.on(port::Method::Get, "/api/v1/namespaces/db/pods",
            [this](const test::FakeRequest& request) {
              if (request.query.find("spec.nodeName") != std::string::npos) {
                return list_pods(request);
              }
              looks.push_back(request.at);
              name_asked = request.query;
              return list_fault.value_or(list_all());
            });
    http.on(port::Method::Get, "/apis/apps/v1/namespaces/db/statefulsets/web",
            [this](const test::FakeRequest&) {
              return owner.is_null() ? status(404, "NotFound", "web")
                                     : test::FakeAnswer{.body = owner.dump()};
            });
    http.on(port::Method::Get, "/api/v1/namespaces/db/events", [this](const test::FakeRequest&) {
      return test::FakeAnswer{.body =
                                  nlohmann::json{{"kind", "EventList"}, {"items", events}}.dump()};
    });
  }
  test::FakeAnswer list_all() {
    nlohmann::json items = nlohmann::json::array();
    for (const auto& [name, pod] : pods) {
      items.push_back(pod);
    }
    return {.body = nlohmann::json{
                {"kind", "PodList"},
                {"metadata", {{"resourceVersion", "9"}}},
                {"items",
                 items}}.dump()};
  }
  void open() {
    activate({binding_of(on_every_signal("return fence.delete_pod('its node is dead')"))});
    reopen();
  }
  void reopen() {
    IncidentContext around = surroundings();
    around.access.looks = &turns;
    incidents.emplace(around, IncidentRules{.hold_downs = {}, .replacement_wait = wait},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
  }
  // As its controller would, elsewhere.
  void replace(bool ready, const std::string& node = "n2", const std::string& name = "web-0") {
    add_pod(name, node);
    nlohmann::json& pod = pods[name];
    pod["metadata"]["uid"] = "new-" + name;
    pod["metadata"]["creationTimestamp"] = "2026-01-02T05:00:01Z";
    pod["status"] = {{"phase", ready ? "Running" : "Pending"},
                     {"conditions", nlohmann::json::array()}};
    if (ready) {
      pod["status"]["conditions"].push_back(
          {{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", "2026-01-02T05:00:02Z"}});
    }
  }
  [[nodiscard]] Lines told() const {
    Lines lines;
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::Replacement) {
        lines.push_back(record.pod->text() + " " + std::string(code(record.reason)) +
                        (record.text.empty() ? "" : ": " + record.text));
      }
    }
    return lines;
  }
  [[nodiscard]] const IncidentRecord::Step::Follow& followed() {
    stored = records.record("i1");
    const auto& follow = stored.find(Uid("uid-web-0"))->follow;
    EXPECT_TRUE(follow.has_value());
    return *follow;
  }
  IncidentRecord stored;
};

TEST_F(ReplacementWatchTest, a_replacement_that_is_ready_at_once_delays_nothing) {
  open();
  tell(Look::Fell);
  run_for(500ms);
  replace(/*ready=*/true);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_LT(loop.now(), Moment{} + 22s) << "the looks for pods on the dead node take as long";
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(told(), Lines{"db/web-0 replacement_ready: on n2"});
  EXPECT_EQ(looks.size(), 1U);
  EXPECT_NE(name_asked.find("metadata.name%3Dweb-0"), std::string::npos) << name_asked;
  run_for(2s);
  EXPECT_EQ(followed().state, Reason::ReplacementReady);
  EXPECT_EQ(followed().node, NodeName("n2"));
  EXPECT_EQ(followed().uid, Uid("new-web-0"));
}

TEST_F(ReplacementWatchTest, the_incident_stays_open_with_what_keeps_the_replacement) {
  open();
  tell(Look::Fell);
  run_for(500ms);
  replace(/*ready=*/false, "");
  pods["web-0"]["status"]["conditions"].push_back({{"type", "PodScheduled"},
                                                   {"status", "False"},
                                                   {"reason", "Unschedulable"},
                                                   {"message", "0/2 nodes are available"}});
  run_for(100s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(told(),
            Lines{"db/web-0 replacement_unscheduled: Unschedulable: 0/2 nodes are available"});
  EXPECT_EQ(followed().state, Reason::ReplacementUnscheduled);
  EXPECT_EQ(incidents->awaited_replacements(),
            (std::map<Reason, std::size_t>{{Reason::ReplacementUnscheduled, 1}}));
  replace(/*ready=*/true);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 40s));
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(told().back(), "db/web-0 replacement_ready: on n2");
}

TEST_F(ReplacementWatchTest, the_bound_ends_it_and_names_what_is_missing) {
  open();
  run_incident();
  EXPECT_EQ(closed_by(), Reason::Unreplaced);
  EXPECT_GE(loop.now(), Moment{} + wait);
  EXPECT_LT(loop.now(), Moment{} + wait + 25s);
  const Record closing = story.records.back();
  EXPECT_EQ(closing.text, "db/web-0 (replacement_absent)");
  run_for(2s);
  EXPECT_EQ(records.record("i1").closed->reason, Reason::Unreplaced);
}

TEST_F(ReplacementWatchTest, looks_grow_rarer) {
  open();
  run_incident();
  ASSERT_GE(looks.size(), 5U);
  EXPECT_LE(looks.size(), 20U);
  Duration longest{};
  for (std::size_t i = 1; i < looks.size(); ++i) {
    EXPECT_GE(looks[i] - looks[i - 1], ReplacementWatch::kFirstPause);
    EXPECT_LE(looks[i] - looks[i - 1], ReplacementWatch::kLongestPause + 1ms);
    longest = std::max(longest, looks[i] - looks[i - 1]);
  }
  EXPECT_GE(longest, ReplacementWatch::kLongestPause);
}

TEST_F(ReplacementWatchTest, the_node_is_not_being_fenced_meanwhile) {
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(brake.being_fenced(), 0U);
  EXPECT_EQ(http.count("DELETE"), 1U) << "verification deletes nothing";
}

TEST_F(ReplacementWatchTest, without_a_wait_nothing_is_looked_at) {
  wait = 0s;
  open();
  run_incident();
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_TRUE(looks.empty());
}

TEST_F(ReplacementWatchTest, a_node_that_is_back_ends_it_as_ever) {
  open();
  tell(Look::Fell);
  run_for(40s);
  nodes["n1"].ready = "True";
  tell();
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  const std::size_t before = looks.size();
  run_for(1min);
  EXPECT_EQ(looks.size(), before) << "nothing is looked at any more";
}

TEST_F(ReplacementWatchTest, a_node_that_falls_again_is_another_incident) {
  open();
  tell(Look::Fell);
  run_for(40s);
  replace(/*ready=*/false, "n1", "web-7");
  tell(Look::Fell);
  EXPECT_EQ(closed_by(), Reason::Unreplaced);
  run_for(5s);
  EXPECT_EQ(made_ids, 2);
  EXPECT_EQ(http.count("DELETE"), 2U) << "what is bound to it now is dealt with";
}

TEST_F(ReplacementWatchTest, a_controller_that_was_scaled_down_or_is_gone_ends_it) {
  owner["spec"]["replicas"] = 0;
  open();
  run_incident();
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(told(), Lines{"db/web-0 replacement_not_needed: StatefulSet web wants no more pods"});
  EXPECT_LT(loop.now(), Moment{} + 25s);
}

TEST_F(ReplacementWatchTest, a_controller_that_cannot_be_read_is_awaited) {
  http.on(port::Method::Get, "/apis/apps/v1/namespaces/db/statefulsets/web",
          [](const test::FakeRequest&) { return status(403, "Forbidden"); });
  open();
  run_incident();
  EXPECT_EQ(closed_by(), Reason::Unreplaced);
  EXPECT_EQ(told(), Lines{"db/web-0 replacement_absent: StatefulSet web"});
}

TEST_F(ReplacementWatchTest, a_volume_that_is_attached_elsewhere_is_named) {
  open();
  tell(Look::Fell);
  run_for(500ms);
  replace(/*ready=*/false);
  pods["web-0"]["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  events.push_back({{"involvedObject", {{"uid", "new-web-0"}}},
                    {"reason", "FailedAttachVolume"},
                    {"message", "Multi-Attach error for volume \"pv-0\""},
                    {"lastTimestamp", "2026-01-02T05:00:03Z"}});
  run_for(15s);
  EXPECT_EQ(told(), Lines{"db/web-0 replacement_unattached: on n2: Multi-Attach error for volume "
                          "\"pv-0\""});
}

TEST_F(ReplacementWatchTest, pods_that_cannot_be_listed_are_looked_at_again) {
  list_fault = status(403, "Forbidden");
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(told(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_GT(log.count("replacements_unreadable"), 0U);
  replace(/*ready=*/true);
  list_fault.reset();
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// One incident after the other, and each one list after the other.
TEST_F(ReplacementWatchTest, the_looks_of_all_incidents_make_one_list_at_a_time) {
  std::size_t open_now = 0;
  std::size_t most = 0;
  std::size_t lists = 0;
  const auto slow = [&](test::FakeAnswer answer) {
    most = std::max(most, ++open_now);
    ++lists;
    answer.delay = 700ms;
    ends.push_back(loop.after(699ms, [&open_now] { --open_now; }));
    return answer;
  };
  http.on(port::Method::Get, "/api/v1/namespaces/db/pods",
          [this, slow](const test::FakeRequest& request) {
            const bool of_node = request.query.find("spec.nodeName") != std::string::npos;
            return of_node ? list_pods(request) : slow(list_all());
          });
  http.on(port::Method::Get, "/api/v1/namespaces/db/events", [slow](const test::FakeRequest&) {
    return slow({.body = R"({"kind":"EventList","items":[]})"});
  });
  nodes["n3"] = nodes["n1"];
  nodes["n3"].uid = "node-3";
  for (const char* name : {"web-1", "web-2"}) {
    add_pod(name);
  }
  add_pod("web-3", "n3");
  add_pod("web-4", "n3");
  open();
  tell(Look::Fell);
  tell(Look::Fell, "n3");
  run_for(500ms);
  for (const char* name : {"web-0", "web-1", "web-2", "web-3", "web-4"}) {
    replace(/*ready=*/false, "n2", name);
    pods[name]["spec"]["volumes"] = {
        {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}};
  }
  run_for(1min);
  EXPECT_EQ(incidents->open_incidents(), 2U);
  EXPECT_GT(lists, 10U);
  EXPECT_EQ(most, 1U);
  EXPECT_EQ(told().size(), 5U) << "each of them";
}

TEST_F(ReplacementWatchTest, a_pod_of_another_page_is_found) {
  open();
  tell(Look::Fell);
  run_for(500ms);
  replace(/*ready=*/true);
  const std::string second = list_all().body;
  http.on(port::Method::Get, "/api/v1/namespaces/db/pods",
          [this, second](const test::FakeRequest& request) -> test::FakeAnswer {
            if (request.query.find("spec.nodeName") != std::string::npos) {
              return list_pods(request);
            }
            if (request.query.find("continue=t1") != std::string::npos) {
              return {.body = second};
            }
            return {.body = R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":"t1"},
                               "items":[]})"};
          });
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// A new leader goes on by the record.
TEST_F(ReplacementWatchTest, the_next_leader_awaits_what_the_record_names) {
  open();
  tell(Look::Fell);
  run_for(40s);
  incidents.reset();
  journal.reset();
  start_journal("moonfence-1_b");
  reopen();
  incidents->await_records();
  journal->read([this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
  tell(Look::TookOver);
  run_for(20s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(incidents->awaited_replacements(),
            (std::map<Reason, std::size_t>{{Reason::ReplacementAbsent, 1}}));
  EXPECT_EQ(told(), Lines{"db/web-0 replacement_absent: StatefulSet web"}) << "and not again";
  replace(/*ready=*/true);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 40s));
  run_for(2s);
  EXPECT_EQ(records.record("i1").closed->reason, Reason::Settled);
  EXPECT_EQ(followed().state, Reason::ReplacementReady);
  EXPECT_EQ(http.count("DELETE"), 1U);
}

TEST_F(ReplacementWatchTest, leaders_that_follow_each_other_give_no_more_time) {
  open();
  tell(Look::Fell);
  for (const char* leader : {"moonfence-1_b", "moonfence-2_c", "moonfence-3_d"}) {
    run_for(80s);
    ASSERT_EQ(incidents->open_incidents(), 1U);
    incidents.reset();
    journal.reset();
    start_journal(leader);
    reopen();
    incidents->await_records();
    journal->read(
        [this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
    tell(Look::TookOver);
  }
  run_for(20s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 80s));
  EXPECT_EQ(closed_by(), Reason::Unreplaced);
  EXPECT_LT(loop.now(), Moment{} + wait + 5s);
}

TEST_F(ReplacementWatchTest, what_is_ready_already_the_next_leader_does_not_await) {
  add_pod("web-1");
  open();
  tell(Look::Fell);
  run_for(500ms);
  replace(/*ready=*/true);
  run_for(40s);
  incidents.reset();
  journal.reset();
  start_journal("moonfence-1_b");
  reopen();
  incidents->await_records();
  journal->read([this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
  tell(Look::TookOver);
  run_for(20s);
  EXPECT_NE(name_asked.find("metadata.name%3Dweb-1"), std::string::npos)
      << "only that one: " << name_asked;
}

}  // namespace
}  // namespace moonfence::fence
