#include "fence/rules/our_taints.h"

#include "kube/objects/decode.h"
#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr const char* kKey = "moonfence.io/fenced";

kube::Node node_with(const json& taints, const std::string& mark, const std::string& boot = "b1") {
  json node = {{"metadata", {{"name", "n1"}, {"uid", "u1"}, {"annotations", {{"other", "1"}}}}},
               {"spec", json::object()},
               {"status",
                {{"nodeInfo", {{"bootID", boot}}},
                 {"conditions",
                  {{{"type", "DiskPressure"}, {"status", "False"}},
                   {{"type", "Ready"},
                    {"status", "Unknown"},
                    {"lastHeartbeatTime", "2026-01-02T04:59:20Z"}}}}}}};
  if (!taints.empty()) {
    node["spec"]["taints"] = taints;
  }
  if (!mark.empty()) {
    node["metadata"]["annotations"][kKey] = mark;
  }
  return *kube::decode_node(node, /*keep_raw=*/true);
}

const json& fenced_taint() {
  static const json taint = {{"key", kKey}, {"value", "i1"}, {"effect", "NoSchedule"}};
  return taint;
}

FenceMark mark_of(const std::string& boot = "b1") {
  return {.incident = IncidentId("i1"), .boot_id = boot, .since = WallTime(1767330000s)};
}

TEST(FenceMark, what_was_written_is_read_and_nothing_else) {
  EXPECT_EQ(to_text(mark_of()),
            R"({"bootID":"b1","incident":"i1","since":"2026-01-02T05:00:00Z","volumes":[]})");
  EXPECT_EQ(read_mark(to_text(mark_of())), mark_of());
  for (const char* text : {"", "x", "[]", "{}", R"({"incident":"i1","bootID":"b1"})",
                           R"({"incident":1,"bootID":"b1","since":"2026-01-02T05:00:00Z"})",
                           R"({"incident":"","bootID":"b1","since":"2026-01-02T05:00:00Z"})"}) {
    EXPECT_EQ(read_mark(text), std::nullopt) << text;
  }
}

TEST(CarriedTaint, it_is_ours_only_by_our_mark) {
  const json tainted = json::array({fenced_taint()});
  EXPECT_EQ(carried_by(node_with({}, "")), Carried::Nothing);
  EXPECT_EQ(carried_by(node_with(tainted, to_text(mark_of()))), Carried::Ours);
  EXPECT_EQ(carried_by(node_with(tainted, to_text(mark_of("b0")))), Carried::OutOfDate);
  EXPECT_EQ(carried_by(node_with(tainted, "")), Carried::Foreign);
  EXPECT_EQ(carried_by(node_with(tainted, "by hand")), Carried::Foreign);
  EXPECT_EQ(carried_by(node_with({}, to_text(mark_of()))), Carried::MarkOnly);
  const json other_effect = {{{"key", kKey}, {"effect", "NoExecute"}}};
  EXPECT_EQ(carried_by(node_with(other_effect, to_text(mark_of()))), Carried::MarkOnly);
}

TEST(FenceMark, a_later_one_of_the_same_boot_keeps_what_the_first_one_knew) {
  json node = {{"metadata", {{"name", "n1"}, {"uid", "u1"}}},
               {"status",
                {{"nodeInfo", {{"bootID", "b1"}}},
                 {"volumesInUse", {"v2", "v3"}},
                 {"volumesAttached", {{{"name", "v1"}}, {{"name", "v2"}}}}}}};
  const auto mark = [&node] {
    return mark_for(*kube::decode_node(node, true), IncidentId("i2"), WallTime(1767330099s),
                    std::nullopt);
  };
  EXPECT_EQ(mark().volumes, (Lines{"v1", "v2", "v3"}));
  FenceMark old = mark_of();
  old.volumes = {"v0", "v2"};
  node["metadata"]["annotations"][kKey] = to_text(old);
  EXPECT_EQ(mark().volumes, (Lines{"v0", "v1", "v2", "v3"}));
  EXPECT_EQ(mark().since, old.since);
  EXPECT_EQ(mark().incident, IncidentId("i2"));
  node["status"]["nodeInfo"]["bootID"] = "b2";
  EXPECT_EQ(mark().volumes, (Lines{"v1", "v2", "v3"}));
  EXPECT_EQ(mark().since, WallTime(1767330099s));
  for (int i = 0; i < 100; ++i) {
    node["status"]["volumesInUse"].push_back("w" + std::to_string(i));
  }
  EXPECT_EQ(mark().volumes.size(), 33U);
  EXPECT_EQ(mark().volumes.back(), "…");
}

// A heartbeat is posted every five minutes: of a kubelet that is younger the Lease knows more.
TEST(FenceMark, it_says_when_the_kubelet_was_last_heard_of) {
  const WallTime now = *parse_rfc3339("2026-01-02T05:00:00Z");
  const WallTime heartbeat = *parse_rfc3339("2026-01-02T04:57:00Z");
  json node = {{"metadata", {{"name", "n1"}, {"uid", "u1"}}},
               {"status",
                {{"nodeInfo", {{"bootID", "b1"}}},
                 {"conditions",
                  {{{"type", "Ready"},
                    {"status", "Unknown"},
                    {"lastHeartbeatTime", format_rfc3339(heartbeat)}}}}}}};
  const auto heard = [&](std::optional<WallTime> renewed) {
    return mark_for(*kube::decode_node(node, true), IncidentId("i2"), now, renewed).heard;
  };
  EXPECT_EQ(heard(std::nullopt), heartbeat);
  EXPECT_EQ(heard(heartbeat - 1s), heartbeat);
  EXPECT_EQ(heard(heartbeat + 100s), heartbeat + 100s);
  EXPECT_EQ(heard(now + 1s), heartbeat);  // of a clock that is wrong
  // One that was four minutes ahead: the node had been given up before that stamp.
  json& ready = node["status"]["conditions"][0];
  ready["lastTransitionTime"] = format_rfc3339(heartbeat + 50s);
  EXPECT_EQ(heard(heartbeat + 40s), heartbeat + 40s);
  EXPECT_EQ(heard(heartbeat + 100s), heartbeat);
  node["status"]["conditions"][0]["lastHeartbeatTime"] = format_rfc3339(now + 1s);
  EXPECT_EQ(heard(std::nullopt), std::nullopt);
  node["status"]["conditions"] = json::array();
  EXPECT_EQ(heard(std::nullopt), std::nullopt);
  EXPECT_EQ(heard(heartbeat), heartbeat);

  FenceMark mark = mark_of();
  mark.heard = heartbeat;
  EXPECT_EQ(read_mark(to_text(mark)), mark);
  EXPECT_EQ(read_mark(R"({"incident":"i1","since":"2026-01-02T05:00:00Z","heard":5})"),
            std::nullopt);
  // Fenced again without a reboot: what was there the first time may still be.
  node["metadata"]["annotations"][kKey] = to_text(mark);
  EXPECT_EQ(heard(now), heartbeat);
  node["metadata"]["annotations"][kKey] = to_text(mark_of());
  EXPECT_EQ(heard(now), std::nullopt);
}

TEST(QuarantinePatch, it_tests_everything_that_it_was_read_by) {
  EXPECT_EQ(operations_to_set(node_with({}, ""), mark_of()), json::parse(R"([
    {"op": "test", "path": "/status/nodeInfo/bootID", "value": "b1"},
    {"op": "test", "path": "/spec/taints", "value": null},
    {"op": "test", "path": "/metadata/annotations/moonfence.io~1fenced", "value": null},
    {"op": "add", "path": "/metadata/annotations/moonfence.io~1fenced",
     "value": "{\"bootID\":\"b1\",\"incident\":\"i1\",\"since\":\"2026-01-02T05:00:00Z\",\"volumes\":[]}"},
    {"op": "add", "path": "/spec/taints",
     "value": [{"key": "moonfence.io/fenced", "value": "i1", "effect": "NoSchedule"}]}])"));
}

TEST(QuarantinePatch, out_of_service_what_the_kubelet_says_is_tested_too) {
  EXPECT_EQ(operations_to_set(node_with({}, ""), mark_of(), OwnTaint::OutOfService),
            json::parse(R"([
    {"op": "test", "path": "/status/nodeInfo/bootID", "value": "b1"},
    {"op": "test", "path": "/spec/taints", "value": null},
    {"op": "test", "path": "/status/conditions/1/type", "value": "Ready"},
    {"op": "test", "path": "/status/conditions/1/status", "value": "Unknown"},
    {"op": "test", "path": "/status/conditions/1/lastHeartbeatTime", "value": "2026-01-02T04:59:20Z"},
    {"op": "test", "path": "/metadata/annotations/moonfence.io~1out-of-service", "value": null},
    {"op": "add", "path": "/metadata/annotations/moonfence.io~1out-of-service",
     "value": "{\"bootID\":\"b1\",\"incident\":\"i1\",\"since\":\"2026-01-02T05:00:00Z\",\"volumes\":[]}"},
    {"op": "add", "path": "/spec/taints",
     "value": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}])"));
}

TEST(QuarantinePatch, without_a_heartbeat_of_ready_all_conditions_are_tested) {
  for (const char* missing :
       {"/status/conditions/1/lastHeartbeatTime", "/status/conditions/1", "/status/conditions"}) {
    const json node =
        node_with({}, "").raw->patch(json::array({{{"op", "remove"}, {"path", missing}}}));
    const json conditions = node["status"].value("conditions", json());
    const json operations = operations_to_set(*kube::decode_node(node, /*keep_raw=*/true),
                                              mark_of(), OwnTaint::OutOfService);
    EXPECT_EQ(operations.at(2),
              (json{{"op", "test"}, {"path", "/status/conditions"}, {"value", conditions}}))
        << missing;
  }
}

TEST(CarriedTaint, out_of_service_is_somebody_else_s_with_any_effect) {
  const json taint = {{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoSchedule"}};
  const kube::Node node = node_with(json::array({taint}), "");
  EXPECT_EQ(carried_by(node, OwnTaint::OutOfService), Carried::Foreign);
  EXPECT_EQ(carried_by(node), Carried::Nothing);
}

TEST(QuarantinePatch, other_taints_stay_and_an_old_one_of_ours_is_replaced) {
  const json dedicated = {{"key", "dedicated"}, {"value", "db"}, {"effect", "NoSchedule"}};
  json old = fenced_taint();
  old["value"] = "i0";
  const json operations = operations_to_set(
      node_with(json::array({old, dedicated}), to_text(mark_of("b0"))), mark_of());
  EXPECT_EQ(operations[1]["value"], json::array({old, dedicated}));
  EXPECT_EQ(operations[2]["value"], to_text(mark_of("b0")));
  EXPECT_EQ(operations.back()["value"], json::array({dedicated, fenced_taint()}));
}

TEST(QuarantinePatch, lifting_leaves_what_is_not_ours) {
  const json dedicated = {{"key", "dedicated"}, {"value", "db"}, {"effect", "NoSchedule"}};
  const json both = json::array({dedicated, fenced_taint()});
  EXPECT_EQ(
      operations_to_lift(node_with(both, to_text(mark_of()))),
      json::array(
          {{{"op", "test"}, {"path", "/status/conditions/1/type"}, {"value", "Ready"}},
           {{"op", "test"}, {"path", "/status/conditions/1/status"}, {"value", "Unknown"}},
           {{"op", "test"}, {"path", "/status/nodeInfo/bootID"}, {"value", "b1"}},
           {{"op", "test"}, {"path", "/spec/taints"}, {"value", both}},
           {{"op", "test"},
            {"path", "/metadata/annotations/moonfence.io~1fenced"},
            {"value", to_text(mark_of())}},
           {{"op", "remove"}, {"path", "/metadata/annotations/moonfence.io~1fenced"}},
           {{"op", "replace"}, {"path", "/spec/taints"}, {"value", json::array({dedicated})}}}));
  EXPECT_EQ(operations_to_lift(node_with(json::array({fenced_taint()}), to_text(mark_of()))).back(),
            (json{{"op", "remove"}, {"path", "/spec/taints"}}));
  // Somebody took it off: only the mark is left.
  EXPECT_EQ(operations_to_lift(node_with({}, to_text(mark_of()))).back(),
            (json{{"op", "remove"}, {"path", "/metadata/annotations/moonfence.io~1fenced"}}));
}

json silent_taint() {
  return {{"key", "moonfence.io/silent"}, {"effect", "NoSchedule"}};
}

TEST(SilentPatch, it_tests_what_it_was_read_by_and_leaves_the_other_taints) {
  const json dedicated = {{"key", "dedicated"}, {"value", "db"}, {"effect", "NoSchedule"}};
  EXPECT_EQ(operations_to_set(node_with(json::array({dedicated}), ""), mark_of(), OwnTaint::Silent),
            json::parse(R"([
    {"op": "test", "path": "/status/nodeInfo/bootID", "value": "b1"},
    {"op": "test", "path": "/spec/taints",
     "value": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]},
    {"op": "test", "path": "/metadata/annotations/moonfence.io~1silent", "value": null},
    {"op": "add", "path": "/metadata/annotations/moonfence.io~1silent",
     "value": "{\"bootID\":\"b1\",\"incident\":\"i1\",\"since\":\"2026-01-02T05:00:00Z\",\"volumes\":[]}"},
    {"op": "add", "path": "/spec/taints",
     "value": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"},
               {"key": "moonfence.io/silent", "effect": "NoSchedule"}]}])"));
}

// The machine was heard: nothing was done there, and what a deletion left has to prove itself
// clean.
TEST(SilentPatch, lifting_it_leaves_the_taint_of_a_deletion) {
  kube::Node node = node_with(json::array({fenced_taint(), silent_taint()}), to_text(mark_of()));
  json raw = *node.raw;
  raw["metadata"]["annotations"]["moonfence.io/silent"] = to_text(mark_of());
  node = *kube::decode_node(raw, /*keep_raw=*/true);
  EXPECT_EQ(operations_to_lift_silent(node),
            json::array({{{"op", "test"},
                          {"path", "/spec/taints"},
                          {"value", json::array({fenced_taint(), silent_taint()})}},
                         {{"op", "test"},
                          {"path", "/metadata/annotations/moonfence.io~1silent"},
                          {"value", to_text(mark_of())}},
                         {{"op", "remove"}, {"path", "/metadata/annotations/moonfence.io~1silent"}},
                         {{"op", "replace"},
                          {"path", "/spec/taints"},
                          {"value", json::array({fenced_taint()})}}}));
  EXPECT_EQ(operations_to_lift(node).back(), (json{{"op", "remove"}, {"path", "/spec/taints"}}))
      << "a node that is handed back is rid of both";
}

TEST(SilentPatch, it_does_not_stand_for_the_taint_of_a_deletion) {
  json raw = *node_with(json::array({silent_taint()}), "").raw;
  raw["metadata"]["annotations"]["moonfence.io/silent"] = to_text(mark_of());
  const kube::Node node = *kube::decode_node(raw, /*keep_raw=*/true);
  EXPECT_EQ(carried_by(node, OwnTaint::Silent), Carried::Ours);
  EXPECT_EQ(carried_by(node), Carried::Nothing);
  EXPECT_FALSE(cluster::view_of(node).is_marked());
  EXPECT_FALSE(cluster::keeps_replacements_off(node));
}

struct OurTaintsTest : IncidentsTest {
  OurTaintsTest() {
    nodes["n1"].tainted = false;
    add_pod("web-0");
    add_pod("web-1");
  }
  [[nodiscard]] Lines patches() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == port::Method::Patch && request.path.starts_with("/api/v1/nodes/")) {
        lines.push_back(name_in(request) + " " + rounded(request.at));
      }
    }
    return lines;
  }
};

TEST_F(OurTaintsTest, a_missing_taint_is_set_by_us_and_then_the_pods_go) {
  quarantine = Quarantine::Missing;
  take_up_nodes();
  run_incident();
  EXPECT_EQ(patches(), Lines{"n1 1s"});  // Kubernetes had a second for its own
  EXPECT_EQ(deletes(), (Lines{"web-0 1s", "web-1 1s"}));
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(nodes["n1"].fence_mark(),
            R"({"bootID":"boot-1","heard":"2026-01-02T04:59:20Z","incident":"i1","since":")" +
                format_rfc3339(sample_cluster().now) + R"(","volumes":[]})");
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(story.told().at(2), "intent sets_quarantine");
  EXPECT_EQ(story.told().at(3), "outcome done");
}

TEST_F(OurTaintsTest, a_taint_that_is_there_is_enough) {
  quarantine = Quarantine::Missing;
  nodes["n1"].tainted = true;
  take_up_nodes();
  run_incident();
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 0s"}));
}

TEST_F(OurTaintsTest, always_means_before_the_first_deletion_whatever_is_there) {
  quarantine = Quarantine::Always;
  nodes["n1"].tainted = true;
  take_up_nodes();
  run_incident();
  EXPECT_EQ(patches(), Lines{"n1 0s"});
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 0s"}));
  EXPECT_TRUE(nodes["n1"].tainted);
}

TEST_F(OurTaintsTest, off_waits_for_somebody_else_s) {
  take_up_nodes();
  tell(Look::Fell);
  run_for(1h);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(OurTaintsTest, where_nothing_is_deleted_nothing_is_set) {
  quarantine = Quarantine::Always;
  take_up_nodes(on_every_signal("return fence.skip('not ours')"));
  run_incident();
  take_up_nodes(on_every_signal("return fence.delete_pod('its node is dead')"), Mode::Observe);
  run_incident();
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 2U);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(OurTaintsTest, nothing_is_deleted_before_the_live_node_carries_it) {
  quarantine = Quarantine::Always;
  // Somebody takes it off as soon as it is there.
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Outcome) {
      nodes["n1"].taints.clear();
    }
  };
  take_up_nodes();
  tell(Look::Fell);
  run_for(10min);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AwaitingTaint), 1U);
  // Three times in a pass, and passes with growing pauses.
  EXPECT_LE(patches().size(), 3U * 25U);
  story.hook = [](const Record&) {};
  run_for(1min);
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OurTaintsTest, a_taint_that_is_dropped_after_the_deletions_is_set_again) {
  quarantine = Quarantine::Always;
  nodes["n1"].tainted = true;
  take_up_nodes();
  tell(Look::Fell);
  run_for(500ms);
  EXPECT_EQ(deletes().size(), 2U);
  nodes["n1"].taints.clear();  // by a controller with an old picture of the list
  run_for(1s);
  EXPECT_TRUE(nodes["n1"].is_fenced());
  EXPECT_EQ(patches(), (Lines{"n1 0s", "n1 1s"}));
  nodes["n1"].taints.clear();
  protections.namespaces = {Namespace("db")};  // the right to it is gone
  run_for(1min);
  EXPECT_FALSE(nodes["n1"].is_fenced());
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(OurTaintsTest, a_node_that_changed_meanwhile_is_read_again) {
  quarantine = Quarantine::Always;
  patch_answers = {status(422, "Invalid")};
  take_up_nodes();
  run_incident();
  EXPECT_EQ(patches(), (Lines{"n1 0s", "n1 0s"}));
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::NodeChanged), 1U);
  EXPECT_EQ(deletes().size(), 2U);
}

// Simulation, seed 381.
TEST_F(OurTaintsTest, an_answer_that_is_always_that_it_changed_is_asked_for_ever_less_often) {
  quarantine = Quarantine::Always;
  patch_answers.assign(20, status(409, "Conflict"));
  take_up_nodes();
  tell(Look::Fell);
  run_for(10s);
  EXPECT_EQ(patches(), (Lines{"n1 0s", "n1 0s", "n1 0s", "n1 1s", "n1 3s", "n1 7s"}));
  EXPECT_EQ(deletes(), Lines{});
  patch_answers.clear();
  run_incident();
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OurTaintsTest, without_the_right_to_it_the_pods_wait_for_somebody_else_s) {
  quarantine = Quarantine::Missing;
  patch_answers.assign(20, status(403, "Forbidden"));
  take_up_nodes();
  tell(Look::Fell);
  run_for(20s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(patches(), (Lines{"n1 1s", "n1 3s", "n1 7s", "n1 15s"}));
  nodes["n1"].tainted = true;
  tell();
  run_for(1s);
  EXPECT_EQ(deletes(), (Lines{"web-0 20s", "web-1 20s"}));
}

TEST_F(OurTaintsTest, a_mark_of_another_boot_is_renewed_before_anything_is_deleted) {
  for (const Quarantine how : {Quarantine::Missing, Quarantine::Always}) {
    quarantine = how;
    add_pod("web-0");
    nodes["n1"].taints = json::array({fenced_taint()});
    nodes["n1"].annotations[kKey] = to_text(mark_of("boot-0"));
    nodes["n1"].tainted = true;
    http.requests.clear();
    take_up_nodes();
    run_incident();
    ASSERT_EQ(patches().size(), 1U);
    EXPECT_EQ(read_mark(nodes["n1"].fence_mark())->boot_id, "boot-1");
    EXPECT_GE(deletes().size(), 1U);
  }
}

TEST_F(OurTaintsTest, a_foreign_taint_counts_and_is_left_alone) {
  quarantine = Quarantine::Always;
  nodes["n1"].taints = json::array({fenced_taint()});
  take_up_nodes();
  run_incident();
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OurTaintsTest, the_taint_passes_the_guard_of_the_deletion_that_waits_for_it) {
  quarantine = Quarantine::Always;
  protections.namespaces = {Namespace("db")};
  take_up_nodes();
  tell(Look::Fell);
  run_for(5s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ProtectedNamespace), 2U);
}

TEST_F(OurTaintsTest, what_cannot_be_recorded_is_not_set) {
  quarantine = Quarantine::Always;
  story.full = true;
  take_up_nodes();
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(deletes(), Lines{});
}

}  // namespace
}  // namespace moonfence::fence
