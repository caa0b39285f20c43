// What everybody says of an incident that is no simple one: policies that disagree, an engine that
// doubts itself, a slow server, what is left behind, machines that went or came again.

#include "unit/app/one_truth_fixture.h"

namespace moonfence::app::truth {
namespace {

// One policy has nothing against the pod, the other one has not come to it.
TEST_F(OneTruth, a_policy_skips_a_pod_whose_node_another_one_holds) {
  run(policies({{.name = "skips", .functions = pod("return fence.skip(\"not mine\")")},
                {.name = "holds",
                 .functions =
                     "node = function(node) return fence.hold(\"its switch restarts\", 20) end, " +
                     pod("return fence.delete_pod(\"its node is down\")")}}) +
          "at 5s not-ready n1\n",
      3min);
  const Told told = ask();
  EXPECT_EQ(told.planned_pod()["verdict"], "wait");
  EXPECT_EQ(told.planned_pod()["because"]["reason"], "policy_holds_node");
  EXPECT_THAT(told.explained,
              HasSubstr("It would be kept for now. policy holds: policy_holds_node, "
                        "\"its switch restarts\".\n"));
  EXPECT_EQ(told.told()["reason"], "policy_holds_node");
  EXPECT_EQ(told.shown()["reason"], "policy_holds_node");
  EXPECT_THAT(told.status, HasSubstr("policy holds, its switch restarts"));
  expect_event(told, told.shown());
}

// One wants the pod gone, another one waits.
TEST_F(OneTruth, two_policies_disagree_about_a_pod) {
  run(policies({{.name = "first", .functions = pod("return fence.delete_pod(\"it is down\")")},
                {.name = "other",
                 .functions = pod("return fence.wait(\"Ceph may still take writes\", 20)")}}) +
          "at 5s not-ready n1\n",
      3min);
  const Told told = ask();
  expect_one_truth(told, "waits", "policy_waits");
  const std::string words = "policy other waits: Ceph may still take writes";
  EXPECT_THAT(told.events.at("PolicyConflict"), HasSubstr(words));
  EXPECT_EQ(told.planned_pod()["verdict"], "refused");
  EXPECT_EQ(told.planned_pod()["because"]["reason"], "policy_conflict");
  EXPECT_THAT(told.explained, HasSubstr(words));
  EXPECT_THAT(told.page, HasSubstr(words));
  EXPECT_EQ(told.told()["counts"]["notDone"], 1);
}

TEST_F(OneTruth, the_engine_doubts_itself) {
  run(deletes() + "at 1s slow-servers reads by=7s for=10m\nat 30s not-ready n1\n", 100s);
  const Told told = ask();
  const std::string title = "Frozen: the engine doubts itself";
  EXPECT_EQ(told.page_json["state"]["title"], title);
  EXPECT_THAT(told.status, HasSubstr("STATE       " + title + ". "));
  expect_one_truth(told, "held", "doubts_itself");
  EXPECT_THAT(told.events.at("FencingBraked"), HasSubstr("the engine doubts its own picture"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_self_doubt 1\n"));
  EXPECT_THAT(told.plan.value("frozen", ""), HasSubstr(title));
  EXPECT_THAT(told.explained, HasSubstr("Nothing is done now. " + title));
}

TEST_F(OneTruth, the_server_is_too_slow) {
  run(deletes() + "at 30s not-ready n1\nat 30s slow-servers reads by=7s for=10m\n", 38s);
  const Told told = ask();
  expect_one_truth(told, "held", "server_slow");
  const std::string words = told.page_json["guard"]["serverSlow"];
  EXPECT_THAT(told.page, HasSubstr("Nothing can be done: " + words));
  EXPECT_THAT(told.status, HasSubstr("Nothing can be done: " + words));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_api_server_too_slow 1\n"));
}

TEST_F(OneTruth, a_volume_is_left_behind) {
  run("statefulset db/pg replicas=1 volumes=1 on=n1\n" +
          policies({{.functions = "needs = { \"volumes\" }, " +
                                  pod("return fence.delete_pod_and_attachments(\"it is silent\")"),
                     .trigger = "failures = 2, interval = \"30s\""}}) +
          "at 5s power-off n1\nat 50s replace-pod db/pg-0\nat 50s replace-pod db/db-0\n",
      4min);
  const Told told = ask();
  expect_one_truth(told, "held", "volume_left");
  EXPECT_THAT(told.events.at("VolumeHeld"), HasSubstr("volume_left"));
}

TEST_F(OneTruth, a_machine_was_made_anew) {
  run(deletes() +
          "answer delete db/db-0 500 until=10m\nat 5s power-off n1\nat 55s recreate-node n1\n"
          "at 55s500ms stop-kubelet n1\n",
      95s);
  const Told told = ask();
  EXPECT_EQ(told.told()["openedFor"], "node_replaced");
  // It is up, and what it does not run is dealt with all the same.
  const std::string state = told.shown().value("state", "");
  EXPECT_EQ(told.told()["state"], state);
  EXPECT_EQ(told.told()["reason"], told.shown()["reason"]);
  EXPECT_THAT(told.status, HasSubstr("1 open, 1 " + state));
  EXPECT_THAT(told.plan_text, HasSubstr("  the engine says: " + state));
  EXPECT_THAT(told.explained, HasSubstr("The engine says of the node: " + state));
  EXPECT_THAT(told.events.at("FencingStarted"), HasSubstr("node_replaced"));
}

TEST_F(OneTruth, a_node_was_deleted) {
  run(policies({{.functions = pod("return fence.delete_pod(\"its node is gone\")"),
                 .trigger = "failures = 1, live_kubelet = true, deleted = true"}}) +
          "answer delete db/db-0 500 until=10m\nat 5s power-off n1\nat 60s delete-node n1\n",
      100s);
  const Told told = ask();
  expect_one_truth(told, "fails", told.shown().value("reason", ""));
  EXPECT_EQ(told.planned()["state"], "deleted");
  EXPECT_THAT(told.explained, HasSubstr("which was deleted"));
}

TEST_F(OneTruth, the_store_went_back) {
  run(deletes() +
          "at 4s snapshot-store\nat 5s power-off n1\nat 46s restore-store for=3s\n"
          "at 46s refuse-writes records how=webhook for=30m\n",
      55s);
  const Told told = ask();
  EXPECT_THAT(told.page_json["state"]["title"], "Frozen: the engine doubts itself");
  EXPECT_THAT(told.page, HasSubstr("the store of the API server went back in time"));
  EXPECT_EQ(told.page_json["guard"]["selfDoubt"], json({"went_back"}));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_self_doubt 1\n"));
}

TEST_F(OneTruth, a_node_may_not_be_put_out_of_service) {
  run("file moonfence.yaml\n| api: 1\n| bindings:\n"
      "| - {policy: retiring, source: retiring.lua, namespaces: [\"*\"], mode: enforce, allow: "
      "[out-of-service]}\n"
      "file retiring.lua\n"
      "| return policy {\n|   api = 1, name = \"retiring\", version = \"1.0.0\", summary = \"a "
      "test\",\n"
      "|   node = function(node) return fence.taint_out_of_service(\"its power is off\") end,\n"
      "|   pod = function(pod) return fence.delete_pod(\"it is out of service\") end,\n| }\n"
      "at 5s power-off n1\n",
      4min);
  const Told told = ask();
  expect_one_truth(told, told.shown().value("state", ""), told.shown().value("reason", ""));
  EXPECT_THAT(told.events.at("OutOfServiceFailed"), HasSubstr("incident"));
}

}  // namespace
}  // namespace moonfence::app::truth
