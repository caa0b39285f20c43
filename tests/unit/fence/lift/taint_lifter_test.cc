#include "fence/lift/taint_lifter.h"

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr const char* kKey = "moonfence.io/fenced";

struct TaintLifterTest : FenceTest {
  std::optional<TaintLifter> taint_lifter;
  json attachments = json::array();
  // What the kubelets say: pods that they mean to run, pods that run there, since when they live.
  std::vector<std::string> wanted;
  std::vector<std::string> running;
  std::string started = "1.76733e+09";             // 2026-01-02T05:00:00Z
  std::optional<test::FakeAnswer> kubelet_answer;  // to each question, in place of that

  TaintLifterTest() {
    http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments",
            [this](const test::FakeRequest&) { return list_of(attachments); });
    http.on(port::Method::Get, "/api/v1/nodes/*",
            [this](const test::FakeRequest& request) { return answer(request); });
    fence("n1");
    taint_lifter.emplace(surroundings());
  }
  static test::FakeAnswer list_of(const json& items) {
    return {.body = json{{"metadata", json::object()}, {"items", items}}.dump()};
  }
  test::FakeAnswer answer(const test::FakeRequest& request) {
    const auto proxy = request.path.find("/proxy/");
    if (proxy == std::string::npos) {
      return read_node(request);
    }
    if (kubelet_answer) {
      return *kubelet_answer;
    }
    const std::string before = "/api/v1/nodes/";
    const std::string name = request.path.substr(before.size(), proxy - before.size());
    if (request.path.ends_with("/metrics")) {
      return {.body = "kubelet_node_name{node=\"" + name + "\"} 1\nprocess_start_time_seconds " +
                      started + "\n",
              .headers = {{"content-type", "text/plain"}}};
    }
    json items = json::array();
    for (const std::string& pod : request.path.ends_with("/pods") ? wanted : running) {
      items.push_back({{"metadata", {{"name", pod}, {"namespace", "db"}, {"uid", "uid-" + pod}}}});
    }
    return {.body = json{{"kind", "PodList"}, {"items", items}}.dump()};
  }
  [[nodiscard]] Lines questions() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.path.ends_with("/proxy/pods")) {
        lines.push_back(rounded(request.at));
      }
    }
    return lines;
  }
  [[nodiscard]] std::size_t lists_of_attachments() const {
    return static_cast<std::size_t>(std::count_if(
        http.requests.begin(), http.requests.end(),
        [](const auto& request) { return request.path.ends_with("/volumeattachments"); }));
  }
  // As an incident leaves a node that came back.
  void fence(const std::string& name, const std::string& boot = "boot-1") {
    NodeState& node = nodes[name];
    node.uid = "uid-" + name;
    node.ready = "True";
    node.tainted = false;
    node.taints = {{{"key", kKey}, {"value", "i1"}, {"effect", "NoSchedule"}}};
    node.annotations[kKey] = to_text(FenceMark{.incident = IncidentId("i1"),
                                               .boot_id = boot,
                                               .since = *parse_rfc3339("2026-01-02T05:00:00Z")});
  }
  void tell(const std::string& name = "n1") {
    taint_lifter->look_at(view(name), cluster::Look::Changed);
  }
  [[nodiscard]] Lines patches() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == port::Method::Patch) {
        lines.push_back(name_in(request) + " " + rounded(request.at));
      }
    }
    return lines;
  }
};

TEST_F(TaintLifterTest, a_node_that_was_booted_again_is_handed_back_at_once) {
  nodes["n1"].boot_id = "boot-2";
  tell();
  run_for(1s);
  EXPECT_EQ(patches(), Lines{"n1 0s"});
  EXPECT_FALSE(nodes["n1"].is_fenced());
  EXPECT_EQ(nodes["n1"].fence_mark(), "");
  EXPECT_EQ(story.told(), (Lines{"intent lifts_quarantine", "outcome done"}));
  EXPECT_EQ(story.records[0].incident, IncidentId("i1"));
  EXPECT_EQ(story.records[0].text, "the node was booted again");
  tell();
  EXPECT_EQ(taint_lifter->fenced(), 0U);
}

TEST_F(TaintLifterTest,
       the_same_boot_is_handed_back_when_its_kubelet_has_said_twice_that_it_is_clean) {
  add_pod("survivor");
  wanted = running = {"survivor"};
  tell();
  run_for(10min);
  EXPECT_EQ(questions(), (Lines{"30s", "35s"}));
  EXPECT_EQ(patches(), Lines{"n1 35s"});
  EXPECT_FALSE(nodes["n1"].is_fenced());
  EXPECT_EQ(lists_of_attachments(), 1U);
}

TEST_F(TaintLifterTest, it_is_kept_until_the_last_old_container_has_ended_and_no_longer) {
  running = wanted = {"old"};
  tell();
  run_for(45s);
  wanted.clear();  // the kubelet has heard that it is gone
  run_for(60s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(lists_of_attachments(), 0U);
  running.clear();
  run_for(16s);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 0U);  // it is as it must be
}

// Each pod that still ran was an event of its own, every few seconds.
TEST_F(TaintLifterTest, what_should_have_passed_is_told_after_minutes_and_once) {
  running = {"old"};
  tell();
  run_for(30s + 3min - 1s);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 0U);
  EXPECT_EQ(taint_lifter->doubtful(), 0U);
  run_for(11s);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 1U);
  EXPECT_EQ(taint_lifter->doubtful(), 1U);
  for (int i = 0; i < 10; ++i) {
    running = {"older-" + std::to_string(i)};
    run_for(1min);
  }
  kubelet_answer = status(503, "ServiceUnavailable");
  run_for(10min);
  kubelet_answer.reset();
  run_for(10min);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 2U);
}

TEST_F(TaintLifterTest, without_the_right_to_ask_it_stays_and_what_grants_it_is_told_at_once) {
  kubelet_answer = status(403, "Forbidden");
  tell();
  run_for(31s);
  ASSERT_EQ(story.told(), Lines{"refusal not_proven_clean"});
  EXPECT_NE(story.records[0].text.find("deploy/rights/kubelet"), std::string::npos);
  run_for(10min);
  EXPECT_EQ(patches(), Lines{});
  kubelet_answer.reset();
  run_for(6min);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(TaintLifterTest, whoever_begins_to_act_says_when_it_may_not_ask_kubelets) {
  const std::string reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  http.on(port::Method::Post, reviews, test::FakeAnswer{.body = R"({"status":{"allowed":false}})"});
  taint_lifter->check_right();
  run_for(1s);
  EXPECT_TRUE(http.requests.empty());  // it sets no taint
  quarantine = Quarantine::Missing;
  taint_lifter.emplace(surroundings());
  taint_lifter->check_right();
  run_for(1s);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(json::parse(http.requests[0].body)["spec"]["resourceAttributes"],
            (json{{"verb", "get"}, {"resource", "nodes"}, {"subresource", "proxy"}}));
  EXPECT_EQ(log.count("kubelets_not_asked"), 1U);
  for (const test::FakeAnswer& answer :
       {test::FakeAnswer{.body = R"({"status":{"allowed":true}})"}, status(403, "Forbidden"),
        test::FakeAnswer{.body = "[]"}}) {
    http.on(port::Method::Post, reviews, answer);
    taint_lifter->check_right();
    run_for(1s);
  }
  EXPECT_EQ(log.count("kubelets_not_asked"), 1U);
}

TEST_F(TaintLifterTest, silent_kubelets_are_asked_one_at_a_time_each_for_its_own_five_seconds) {
  kubelet_answer = test::FakeAnswer::silent();
  for (int i = 1; i <= 4; ++i) {
    fence("n" + std::to_string(i));
    tell("n" + std::to_string(i));
  }
  run_for(55s);
  EXPECT_EQ(questions(), (Lines{"30s", "35s", "40s", "45s"}));
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(TaintLifterTest, a_kubelet_that_was_started_between_its_answers_is_asked_again) {
  tell();
  run_for(32s);
  started = "1.76733003e+09";
  run_for(5s);
  EXPECT_EQ(questions(), (Lines{"30s", "35s"}));
  EXPECT_EQ(patches(), Lines{});
  run_for(5s);
  EXPECT_EQ(patches().size(), 1U);
}

// What is left of a search may outlive everything.
TEST_F(TaintLifterTest, it_may_end_while_a_kubelet_is_asked_and_others_wait) {
  kubelet_answer = test::FakeAnswer::silent();
  for (int i = 1; i <= 4; ++i) {
    fence("n" + std::to_string(i));
    tell("n" + std::to_string(i));
  }
  run_for(31s);
  taint_lifter.reset();
  run_for(1min);
  EXPECT_EQ(questions(), Lines{"30s"});
}

// Ready by Kubernetes, and its storage still calls it failed.
TEST_F(TaintLifterTest, a_node_that_is_still_called_failed_is_not_back) {
  bool failed = true;
  taint_lifter.emplace(surroundings(), [&failed](const NodeName& /*name*/) { return failed; });
  nodes["n1"].boot_id = "boot-2";
  tell();
  run_for(10min);
  EXPECT_EQ(patches(), Lines{});
  failed = false;
  run_for(10min);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(TaintLifterTest, what_is_left_keeps_it_and_is_told_once) {
  nodes["n1"].status["volumesInUse"] = {"kubernetes.io/csi/csi.example.com^h1"};
  tell();
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(story.told(), Lines{"refusal not_proven_clean"});
  EXPECT_EQ(taint_lifter->doubtful(), 1U);
  nodes["n1"].status.erase("volumesInUse");
  run_for(6min);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_FALSE(nodes["n1"].is_fenced());
  EXPECT_EQ(taint_lifter->doubtful(), 0U);
}

TEST_F(TaintLifterTest, what_cannot_be_read_keeps_it) {
  http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments",
          [](const test::FakeRequest&) { return status(403, "Forbidden"); });
  tell();
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 1U);
}

// Whoever repairs it says so by a hold, and a taint that is gone would bring pods there.
TEST_F(TaintLifterTest, a_node_that_somebody_holds_keeps_it_until_it_is_let_go) {
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].annotations["moonfence.io/hold"] = "disks are being changed";
  tell();
  run_for(10min);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 1U);
  EXPECT_EQ(story.records.back().text, "somebody holds the node: disks are being changed");
  EXPECT_EQ(taint_lifter->kept().count(NodeName("n1")), 1U);
  nodes["n1"].annotations.erase("moonfence.io/hold");
  run_for(20s);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(TaintLifterTest, a_foreign_taint_is_left_alone) {
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].annotations.erase(kKey);
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(taint_lifter->fenced(), 0U);
  // It loses its mark after we were told of it.
  fence("n1");
  tell();
  nodes["n1"].annotations.erase(kKey);
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(nodes["n1"].is_fenced());
}

TEST_F(TaintLifterTest, a_node_that_is_down_keeps_it) {
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].ready = "Unknown";
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  // The watch is late.
  nodes["n1"].ready = "True";
  const auto seen = view();
  nodes["n1"].ready = "Unknown";
  taint_lifter->look_at(seen, cluster::Look::Changed);
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(TaintLifterTest, only_the_replica_that_acts_takes_it_off) {
  nodes["n1"].boot_id = "boot-2";
  taint_lifter->step_down();
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  taint_lifter->lead();
  run_for(1s);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(TaintLifterTest, a_term_that_is_over_keeps_it) {
  nodes["n1"].boot_id = "boot-2";
  leadership.until = std::nullopt;
  tell();
  run_for(1s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.told(), Lines{"refusal not_leader"});
}

TEST_F(TaintLifterTest, a_lift_that_waits_for_the_wire_is_refused_when_the_node_falls_again) {
  nodes["n1"].boot_id = "boot-2";
  story.hook = [this](const audit::Record& record) {
    credentials.late = record.kind == audit::Record::Kind::Intent;
  };
  tell();
  ASSERT_TRUE(run_until([this] { return credentials.waiting != nullptr; }));
  story.hook = [](const audit::Record&) {};
  credentials.late = false;
  nodes["n1"].ready = "Unknown";
  tell();
  credentials.answer(credentials.waiting);
  run_for(1s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.told(), (Lines{"intent lifts_quarantine", "refusal node_changed"}));
}

TEST_F(TaintLifterTest, a_change_between_reading_and_patch_is_read_again) {
  nodes["n1"].boot_id = "boot-2";
  patch_answers = {status(422, "Invalid")};
  tell();
  run_for(3s);
  EXPECT_EQ(patches(), (Lines{"n1 0s", "n1 1s"}));
  EXPECT_FALSE(nodes["n1"].is_fenced());
}

TEST_F(TaintLifterTest, a_taint_that_somebody_took_off_loses_its_annotation_too) {
  nodes["n1"].taints = json::array();
  tell();
  run_for(34s);
  EXPECT_NE(nodes["n1"].fence_mark(), "");  // it is proven clean like any other
  run_for(3s);
  EXPECT_EQ(nodes["n1"].fence_mark(), "");
  EXPECT_EQ(nodes["n1"].taints, json::array());
  EXPECT_NE(story.records.back().text.find("somebody else had taken it off"), std::string::npos);
}

TEST_F(TaintLifterTest, many_nodes_are_looked_at_a_few_at_a_time) {
  node_answer.delay = 500ms;
  for (int i = 1; i <= 20; ++i) {
    fence("n" + std::to_string(i), "boot-0");
    tell("n" + std::to_string(i));
  }
  run_for(100ms);
  EXPECT_EQ(reads().size(), TaintLifter::kAtOnce);
  run_for(1min);
  EXPECT_EQ(patches().size(), 20U);
}

TEST_F(TaintLifterTest, one_that_goes_away_in_the_middle_gives_its_place_up) {
  for (int i = 1; i <= 6; ++i) {
    fence("n" + std::to_string(i), "boot-0");
  }
  node_answer.delay = 900ms;
  for (int i = 1; i <= 6; ++i) {
    tell("n" + std::to_string(i));
  }
  run_for(100ms);
  for (int i = 1; i <= 4; ++i) {
    auto gone = view("n" + std::to_string(i));
    gone.readiness = cluster::Readiness::Gone;
    taint_lifter->look_at(gone, cluster::Look::Changed);
  }
  run_for(5s);
  EXPECT_EQ(patches().size(), 2U);
}

}  // namespace
}  // namespace moonfence::fence
