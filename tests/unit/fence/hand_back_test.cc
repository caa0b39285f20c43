#include "fence/hand_back.h"

#include "unit/fence/desk_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr const char* kKey = "moonfence.io/fenced";

struct HandBackTest : FenceTest {
  std::optional<HandBack> hand_back;
  json attachments = json::array();
  json events = json::array();

  HandBackTest() {
    http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments",
            [this](const test::FakeRequest&) { return list_of(attachments); });
    http.on(port::Method::Get, "/api/v1/namespaces/default/events",
            [this](const test::FakeRequest&) { return list_of(events); });
    fence("n1");
    hand_back.emplace(surroundings());
  }
  static test::FakeAnswer list_of(const json& items) {
    return {.body = json{{"metadata", json::object()}, {"items", items}}.dump()};
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
    hand_back->look_at(view(name), cluster::Look::Changed);
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

TEST_F(HandBackTest, a_node_that_was_booted_again_is_handed_back_at_once) {
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
  EXPECT_EQ(hand_back->fenced(), 0U);
}

TEST_F(HandBackTest, the_same_boot_is_handed_back_after_thirty_seconds) {
  add_pod("survivor");
  tell();
  run_for(10min);
  EXPECT_EQ(patches(), Lines{"n1 30s"});
  EXPECT_FALSE(nodes["n1"].is_fenced());
}

// Ready by Kubernetes, and its storage still calls it failed.
TEST_F(HandBackTest, a_node_that_is_still_called_failed_is_not_back) {
  bool failed = true;
  hand_back.emplace(surroundings(), [&failed](const NodeName& /*name*/) { return failed; });
  nodes["n1"].boot_id = "boot-2";
  tell();
  run_for(10min);
  EXPECT_EQ(patches(), Lines{});
  failed = false;
  run_for(10min);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(HandBackTest, what_is_left_keeps_it_and_is_told_once) {
  nodes["n1"].status["volumesInUse"] = {"kubernetes.io/csi/csi.example.com^h1"};
  tell();
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(story.told(), Lines{"refusal not_proven_clean"});
  EXPECT_EQ(hand_back->doubtful(), 1U);
  nodes["n1"].status.erase("volumesInUse");
  run_for(6min);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_FALSE(nodes["n1"].is_fenced());
  EXPECT_EQ(hand_back->doubtful(), 0U);
}

TEST_F(HandBackTest, what_cannot_be_read_keeps_it) {
  http.on(port::Method::Get, "/api/v1/namespaces/default/events",
          [](const test::FakeRequest&) { return status(403, "Forbidden"); });
  tell();
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NotProvenClean), 1U);
}

TEST_F(HandBackTest, a_foreign_taint_is_left_alone) {
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].annotations.erase(kKey);
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(hand_back->fenced(), 0U);
  // It loses its mark after we were told of it.
  fence("n1");
  tell();
  nodes["n1"].annotations.erase(kKey);
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(nodes["n1"].is_fenced());
}

TEST_F(HandBackTest, a_node_that_is_down_keeps_it) {
  nodes["n1"].boot_id = "boot-2";
  nodes["n1"].ready = "Unknown";
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  // The watch is late.
  nodes["n1"].ready = "True";
  const auto seen = view();
  nodes["n1"].ready = "Unknown";
  hand_back->look_at(seen, cluster::Look::Changed);
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(HandBackTest, only_the_replica_that_acts_takes_it_off) {
  nodes["n1"].boot_id = "boot-2";
  hand_back->step_down();
  tell();
  run_for(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  hand_back->lead();
  run_for(1s);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(HandBackTest, a_term_that_is_over_keeps_it) {
  nodes["n1"].boot_id = "boot-2";
  leadership.until = std::nullopt;
  tell();
  run_for(1s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.told(), Lines{"refusal not_leader"});
}

TEST_F(HandBackTest, a_lift_that_waits_for_the_wire_is_refused_when_the_node_falls_again) {
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

TEST_F(HandBackTest, a_change_between_reading_and_patch_is_read_again) {
  nodes["n1"].boot_id = "boot-2";
  patch_answers = {status(422, "Invalid")};
  tell();
  run_for(3s);
  EXPECT_EQ(patches(), (Lines{"n1 0s", "n1 1s"}));
  EXPECT_FALSE(nodes["n1"].is_fenced());
}

TEST_F(HandBackTest, a_taint_that_somebody_took_off_loses_its_annotation_too) {
  nodes["n1"].taints = json::array();
  tell();
  run_for(29s);
  EXPECT_NE(nodes["n1"].fence_mark(), "");  // it is proven clean like any other
  run_for(3s);
  EXPECT_EQ(nodes["n1"].fence_mark(), "");
  EXPECT_EQ(nodes["n1"].taints, json::array());
}

TEST_F(HandBackTest, many_nodes_are_looked_at_a_few_at_a_time) {
  node_answer.delay = 500ms;
  for (int i = 1; i <= 20; ++i) {
    fence("n" + std::to_string(i), "boot-0");
    tell("n" + std::to_string(i));
  }
  run_for(100ms);
  EXPECT_EQ(reads().size(), HandBack::kAtOnce);
  run_for(1min);
  EXPECT_EQ(patches().size(), 20U);
}

TEST_F(HandBackTest, one_that_goes_away_in_the_middle_gives_its_place_up) {
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
    hand_back->look_at(gone, cluster::Look::Changed);
  }
  run_for(5s);
  EXPECT_EQ(patches().size(), 2U);
}

}  // namespace
}  // namespace moonfence::fence
