// One incident of each kind, and what everybody says of it who is asked: the page, /status.json,
// `moonfence status`, `plan`, `explain`, events and metrics. They say the same.

#include "unit/app/one_truth_fixture.h"

namespace moonfence::app::truth {
namespace {

using testing::Not;

TEST_F(OneTruth, nothing_is_wrong) {
  run(deletes(), 30s);
  const Told told = ask();
  EXPECT_EQ(told.page_json["state"]["title"], "All quiet");
  EXPECT_EQ(told.situation["state"], told.page_json["state"]);
  EXPECT_EQ(told.situation["openIncidents"], 0);
  EXPECT_THAT(told.status, HasSubstr("STATE       All quiet. "));
  EXPECT_THAT(told.status, HasSubstr("BRAKE       free, 0 of 3 workers newly down, limit 50 %\n"));
  EXPECT_THAT(told.status, HasSubstr("INCIDENTS   0 open\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_incidents_open 0\n"));
  EXPECT_THAT(told.plan_text, HasSubstr("is up, nothing would be done"));
  EXPECT_FALSE(told.events.contains("FencingStarted"));
}

TEST_F(OneTruth, a_pod_was_deleted_and_its_node_is_looked_after) {
  run(deletes() + "at 5s not-ready n1\n", 8s);
  const Told told = ask();
  expect_one_truth(told, "under way", "");
  EXPECT_EQ(told.told()["counts"]["deleted"], 1);
  EXPECT_THAT(told.status, HasSubstr("1 deleted"));
  EXPECT_TRUE(told.events.contains("PodForceDeleted"));
}

TEST_F(OneTruth, a_policy_waits) {
  run(policy("return fence.wait(\"its storage is busy\", 20)") + "at 5s not-ready n1\n", 3min);
  const Told told = ask();
  expect_one_truth(told, "waits", "policy_waits");
  EXPECT_THAT(told.told()["text"], HasSubstr("its storage is busy"));
  EXPECT_TRUE(told.told().contains("nextLook"));
  EXPECT_THAT(told.status, HasSubstr("its storage is busy"));
  EXPECT_THAT(told.events.at("FencingHeld"), HasSubstr("its storage is busy"));
  EXPECT_EQ(told.planned_pod()["verdict"], "wait");
}

TEST_F(OneTruth, somebody_holds_the_node_the_namespace_or_the_pod) {
  for (const char* hold : {"hold-node n1", "hold-namespace db", "hold-pod db/db-0"}) {
    for (const char* mode : {"enforce", "observe"}) {
      SCOPED_TRACE(std::string(hold) + " " + mode);
      run(deletes(mode) + "at 2s " + hold + " why=disk\nat 5s not-ready n1\n", 40s);
      const Told told = ask();
      expect_one_truth(told, "held", "on_hold");
      EXPECT_EQ(told.told()["counts"]["notDone"], 1);
      EXPECT_TRUE(told.told().contains("nextLook"));
      EXPECT_THAT(told.events.at("FencingRefused"), HasSubstr("disk"));
      EXPECT_EQ(told.planned_pod()["verdict"], "refused");
      EXPECT_THAT(told.explained, HasSubstr("disk"));
    }
  }
}

TEST_F(OneTruth, a_policy_fails) {
  run(policy("if pod.name == \"db-0\" then error(\"oh no\") end return fence.skip(\"no\")") +
          "at 5s not-ready n1\n",
      3min);
  const Told told = ask();
  expect_one_truth(told, "fails", "policy_failed");
  EXPECT_THAT(told.status, testing::ContainsRegex("test +Failing "));
  EXPECT_EQ(told.page_json["policies"]["policies"][0]["state"], "Failing");
  EXPECT_THAT(told.metrics, HasSubstr("state=\"Failing\""));
  EXPECT_THAT(told.told()["text"], HasSubstr("policies that fail: test"));
  EXPECT_THAT(told.events.at("FencingHeld"), HasSubstr("policies that fail: test"));
  EXPECT_THAT(told.explained, Not(HasSubstr("It would be deleted")));
}

TEST_F(OneTruth, too_many_nodes_are_down) {
  run(deletes() + "at 5s not-ready n1\nat 5s not-ready n2\n", 20s);
  const Told told = ask();
  EXPECT_THAT(told.page_json["state"]["title"], "Frozen: too many nodes are down");
  EXPECT_THAT(told.status, HasSubstr("STATE       Frozen: too many nodes are down. "));
  EXPECT_THAT(told.status,
              HasSubstr("BRAKE       frozen, 2 of 3 workers newly down, limit 50 %: n1, n2\n"));
  EXPECT_THAT(told.page, HasSubstr("2 of 3 workers newly down"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_brake_workers{state=\"newly_down\"} 2\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_brake_workers{state=\"all\"} 3\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_incidents_stand{reason=\"too_many_down\","
                                      "state=\"held\"}"));
  EXPECT_THAT(told.status, testing::ContainsRegex(" held +too_many_down "));
  EXPECT_EQ(told.told()["reason"], "too_many_down");
  EXPECT_EQ(told.shown()["reason"], "too_many_down");
  EXPECT_EQ(told.planned()["holdsFor"], "too_many_down");
  EXPECT_THAT(told.explained, HasSubstr("too_many_down"));
  EXPECT_THAT(told.events.at("FencingBraked"), HasSubstr("2 of 3 workers are newly down: n1, n2"));
}

TEST_F(OneTruth, the_engine_sits_on_the_node) {
  run("world seats n1\n" + deletes() + "at 5s not-ready n1\n", 3min);
  const Told told = ask();
  expect_one_truth(told, "fails", "own_node");
  EXPECT_EQ(told.planned_pod()["verdict"], "refused");
  EXPECT_THAT(told.explained, HasSubstr("own_node"));
}

TEST_F(OneTruth, a_kubelet_that_is_called_silent_renews_its_lease) {
  run(deletes() + "at 5s mark-unknown n1\n", 20s);
  const Told told = ask();
  expect_one_truth(told, "held", "lease_alive");
  EXPECT_TRUE(told.told().contains("nextLook"));
  EXPECT_EQ(told.planned()["holdsFor"], "lease_alive");
  EXPECT_THAT(told.explained, HasSubstr("lease_alive"));
  EXPECT_THAT(told.explained, testing::Not(HasSubstr("would be deleted"))) << "beside it";
  EXPECT_TRUE(told.events.contains("FencingHeld"));
}

TEST_F(OneTruth, a_webhook_refuses_the_deletion) {
  run(deletes() + "at 1s refuse-writes pods how=webhook for=30m\nat 5s not-ready n1\n", 3min);
  const Told told = ask();
  const json shown = told.shown();
  expect_one_truth(told, "fails", shown.value("reason", ""));
  EXPECT_EQ(told.told()["counts"]["notDone"], 1);
  EXPECT_TRUE(told.told().contains("nextLook"));
  EXPECT_TRUE(told.events.contains("FencingUncertain"));  // a webhook's 500 says nothing for sure
  EXPECT_THAT(told.events.at("FencingHeld"), HasSubstr("still_failing"));
}

TEST_F(OneTruth, a_taint_is_kept) {
  run("set quarantine always\nstatefulset db/pg replicas=1 volumes=1 on=n1\n" +
          policy("return fence.delete_pod_and_attachments(\"it is silent\")", "enforce", "db",
                 "needs = { \"volumes\" },") +
          "at 5s stop-kubelet n1\nat 3m heal n1\n",
      20min);
  const Told told = ask();
  EXPECT_EQ(told.page_json["guard"]["doubtfulNodes"], 1);
  ASSERT_EQ(told.situation["taintsKept"].size(), 1U);
  EXPECT_EQ(told.situation["taintsKept"][0]["node"], "n1");
  const std::string why = told.situation["taintsKept"][0]["why"];
  EXPECT_EQ(told.page_json["guard"]["taintsKept"], told.situation["taintsKept"]);
  EXPECT_THAT(told.page, HasSubstr("n1: "));
  EXPECT_THAT(told.status, HasSubstr("n1: " + why));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_nodes_quarantined{state=\"kept\"} 1\n"));
  EXPECT_TRUE(told.events.contains("QuarantineKept"));
}

TEST_F(OneTruth, it_is_switched_off) {
  run(deletes() + "file mode\n| off\nat 5s not-ready n1\n", 20s);
  const Told told = ask();
  EXPECT_EQ(told.page_json["state"]["title"], "Off: nothing is judged");
  EXPECT_THAT(told.status, HasSubstr("STATE       Off: nothing is judged. "));
  EXPECT_THAT(told.status, HasSubstr("INCIDENTS   0 open\n"));
  EXPECT_THAT(told.explained, HasSubstr("It would be kept"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencing_off{reason=\"mode_off\"} 1\n"));
}

TEST_F(OneTruth, in_mode_observe_nothing_is_done) {
  run(deletes("observe") + "at 5s not-ready n1\n", 20s);
  const Told told = ask();
  EXPECT_THAT(told.page_json["state"]["text"].get<std::string>(),
              testing::AnyOf(HasSubstr("Nothing is deleted"), HasSubstr("nothing is deleted")));
  EXPECT_TRUE(told.events.contains("WouldForceDelete"));
  EXPECT_EQ(told.planned_pod()["because"]["reason"], "mode_observes");
  EXPECT_THAT(told.explained, HasSubstr("mode_observes"));
  EXPECT_THAT(told.page, HasSubstr("would be deleted"));
}

// The policy goes by that alone: nothing is fenced, and all else is well.
TEST_F(OneTruth, a_health_source_cannot_be_read) {
  run(policy("return fence.delete_pod(\"its host is expelled\")", "enforce", "db",
             "source = { every = \"5s\", expiry = \"1h\", plan = function(s, got) if not got.hosts "
             "then return { hosts = fence.http(\"array\", \"/v1/hosts\") } end end, "
             "nodes = function(s, got) return {} end },") +
          "at 5s not-ready n1\n",
      90s);
  const Told told = ask();
  const std::string words = "The health source of policy test cannot be read";
  EXPECT_EQ(told.page_json["guard"]["healthSources"][0]["policy"], "test");
  EXPECT_EQ(told.page_json["guard"]["healthSources"], told.situation["healthSources"]);
  EXPECT_THAT(told.page, HasSubstr(words));
  EXPECT_THAT(told.status, HasSubstr(words));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_health_source_unreadable{policy=\"test\"} 1\n"));
  EXPECT_THAT(told.events.at("HealthSourceUnreadable"), HasSubstr(words));
}

TEST_F(OneTruth, a_fencer_does_not_work) {
  run(deletes() + R"(config
| api: 1
| endpoints:
|   bmc-n1: {url: "https://bmc-n1.example:443"}
|   bmc-n2: {url: "https://bmc-n2.example:443"}
| fencers:
| - {fencer: redfish, nodes: bmc, settings: {endpoint_label: bmc}}
responses
| {"http bmc-n1 /redfish/v1/Systems": {"body": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}},
|  "http bmc-n1 /redfish/v1/Systems/1": {"body": {"UUID": "6E310000-0000-4000-8000-000000000000", "PowerState": "On"}},
|  "http bmc-n2 /redfish/v1/Systems": {"status": 401}}
at 1s label-node n1 key=bmc value=bmc-n1
at 1s label-node n2 key=bmc value=bmc-n2
)",
      10min);
  Told told = ask();
  EXPECT_EQ(told.page_json["fencers"]["works"], 1) << told.page_json["fencers"].dump(1);
  EXPECT_EQ(told.page_json["fencers"]["broken"], 0) << "it has failed once";
  EXPECT_EQ(told.page_json["state"]["title"], "All quiet");
  EXPECT_FALSE(told.events.contains("FencerBroken"));

  run_until(20min);
  told = ask();
  const json shown = told.page_json["fencers"];
  EXPECT_EQ(shown["broken"], 1) << shown.dump(1);
  EXPECT_EQ(shown["nodes"][0]["node"], "n2");
  EXPECT_EQ(shown, told.situation["fencers"]);
  const std::string why = shown["nodes"][0]["why"];
  EXPECT_THAT(why, HasSubstr("redfish: unknown, "));
  EXPECT_THAT(told.status,
              HasSubstr("FENCERS     nodes: 1 whose fencers work, 1 with a broken one, "
                        "1 without any\n"));
  EXPECT_THAT(told.status, HasSubstr(why));
  EXPECT_THAT(told.page, HasSubstr("<h2 id=\"fencers\">"));
  EXPECT_EQ(told.page_json["state"]["title"], "Quiet, but look at this");
  EXPECT_THAT(told.events.at("FencerBroken"), HasSubstr(why));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"broken\"} 1\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"works\"} 1\n"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencer_nodes{state=\"none\"} 1\n"));
}

TEST_F(OneTruth, a_binding_names_a_namespace_that_does_not_exist) {
  run(policy("return fence.delete_pod(\"its node is down\")", "enforce", "defalt") +
          "at 5s not-ready n1\n",
      20s);
  const Told told = ask();
  const std::string words = "is bound to namespace defalt, which does not exist";
  EXPECT_THAT(told.page, HasSubstr(words));
  EXPECT_EQ(told.page_json["policies"]["policies"][0].value("absentNamespaces", json()),
            json({"defalt"}));
  EXPECT_THAT(told.page_json["state"]["notices"].dump(), HasSubstr(words));
  EXPECT_EQ(told.situation["state"], told.page_json["state"]);
  EXPECT_THAT(told.status, HasSubstr("policy test " + words));
  EXPECT_THAT(told.events.at("NamespaceAbsent"), HasSubstr(words));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_policy_absent_namespaces{policy=\"test\"} 1\n"));
  EXPECT_THAT(told.explained, HasSubstr("no policy in force selects it"));
}

TEST_F(OneTruth, no_policy_is_bound) {
  run("file moonfence.yaml\n| api: 1\n| bindings: []\nat 5s not-ready n1\n", 20s);
  const Told told = ask();
  EXPECT_THAT(told.page, HasSubstr("Nothing is fenced, whatever fails"));
  EXPECT_THAT(told.status, HasSubstr("Nothing is fenced, whatever fails"));
  EXPECT_THAT(told.metrics, HasSubstr("moonfence_fencing_off{reason=\"nothing_bound\"} 1\n"));
  EXPECT_THAT(told.explained, HasSubstr("No policy is in force"));
  EXPECT_EQ(told.plan["acts"], false);
}

}  // namespace
}  // namespace moonfence::app::truth
