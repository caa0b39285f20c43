// One incident of each kind, and what everybody says of it who is asked: the page, /status.json,
// `moonfence status`, `plan`, `explain`, events and metrics. They say the same.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/explanation.h"
#include "app/plan_text.h"
#include "app/sim_replica.h"
#include "app/simulate_setup.h"
#include "app/status_json.h"
#include "app/status_page.h"
#include "app/status_text.h"
#include "kube/decode.h"
#include "unit/app/frozen_world.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kOrigin = "http://api-0.sim";

// A policy of one verdict, bound to namespace db.
std::string policy(const std::string& body, const std::string& mode = "enforce",
                   const std::string& space = "db", const std::string& more = "") {
  return "file      moonfence.yaml\n| api: 1\n| bindings:\n"
         "| - {policy: test, source: test.lua, namespaces: [" +
         space + "], mode: " + mode +
         ", holdDown: 0s}\n"
         "file      test.lua\n"
         "| return policy {\n"
         "|   api = 1, name = \"test\", version = \"1.0.0\", summary = \"a test\",\n"
         "|   trigger = { failures = 1, live_kubelet = true }, " +
         more +
         "\n"
         "|   pod = function(pod) " +
         body + " end,\n| }\n";
}
std::string deletes(const std::string& mode = "enforce") {
  return policy("return fence.delete_pod(\"its node is down\")", mode);
}

// What one of them says at a moment.
struct Told {
  json page_json;
  std::string page;
  json situation;  // as it stands in the cluster
  std::string status;
  json status_json;
  json plan;
  std::string plan_text;
  std::string explained;
  std::map<std::string, std::string> events;  // by reason: the notes
  std::string metrics;

  // Of the first open incident; null without.
  [[nodiscard]] json shown() const {
    const json& open = page_json["incidents"]["underWay"];
    return open.empty() ? json() : open[0];
  }
  [[nodiscard]] json told() const {
    return situation["incidents"].empty() ? json() : situation["incidents"][0];
  }
  [[nodiscard]] json planned() const { return plan["nodes"][0]; }
  [[nodiscard]] json planned_pod() const {
    return planned()["pods"].empty() ? json() : planned()["pods"][0];
  }
};

class OneTruth : public testing::Test {
 protected:
  void run(const std::string& lines, Duration until) {
    test::FakeFiles files;
    files.write("a.txt",
                "name a\nworld nodes n1 n2 n3\n"
                "statefulset db/db replicas=1 labels=app=db on=n1\nlength 1h\n" +
                    lines);
    auto scenario = read_scenario("a.txt", files);
    ASSERT_TRUE(scenario) << scenario.error().message();
    options_.settings = *settings_of(scenario->plan);
    options_.status_board = &board_;
    options_.made = [this](Engine& engine) { engine_ = &engine; };
    seat_ = scenario->plan.seats.empty() ? "" : scenario->plan.seats.front();
    run_.emplace(*scenario, make_sim_replicas(options_), story_);
    while (run_->elapsed() < until && run_->step()) {
    }
  }

  Told ask() {
    Told told;
    const auto snapshot = board_.read();
    const WallTime now = snapshot->taken;
    told.page_json = json::parse(status_json(*snapshot, now));
    told.page = front_page({.snapshot = *snapshot, .now = now, .refreshes = false, .root = ""});
    ask_status(told, now);
    ask_plan(told, now);
    for (const sim::Object& event : run_->world().cluster().store().list("events")) {
      told.events[event->at("reason").get<std::string>()] += event->at("note").get<std::string>();
    }
    told.metrics = engine_->metrics().exposition();
    return told;
  }

  // Everybody says the same of the first open incident.
  static void expect_one_truth(const Told& told, const std::string& state,
                               const std::string& reason) {
    const json shown = told.shown();
    const json of_cluster = told.told();
    ASSERT_FALSE(shown.is_null()) << told.status;
    for (const char* key : {"id", "node", "state", "reason", "text", "counts"}) {
      EXPECT_EQ(shown.contains(key) ? shown[key] : json(),
                of_cluster.contains(key) ? of_cluster[key] : json())
          << key << told.status;
    }
    // What is looked at every moment is told again when it was looked at.
    const std::string next = of_cluster.value("nextLook", "");
    if (next > told.page_json["taken"]) {
      EXPECT_EQ(shown.value("nextLook", ""), next);
      EXPECT_THAT(told.status, HasSubstr(next));
    }
    EXPECT_EQ(shown.value("state", ""), state) << shown.dump(1);
    EXPECT_EQ(shown.value("reason", ""), reason) << shown.dump(1);
    EXPECT_THAT(told.page, HasSubstr("</span> " + state + "</span>"));
    if (!reason.empty()) {
      EXPECT_THAT(told.page, HasSubstr("reasons#" + reason));
    }
    EXPECT_THAT(told.status, HasSubstr("1 open, 1 " + state)) << told.status;
    EXPECT_THAT(told.status, HasSubstr(" " + state + "  ")) << told.status;
    EXPECT_THAT(told.status, HasSubstr(reason));
    EXPECT_EQ(told.page_json["state"]["title"], told.situation["state"]["title"]);
    EXPECT_THAT(told.status, HasSubstr(told.page_json["state"]["title"].get<std::string>() + ". "));
    EXPECT_EQ(told.status_json["openIncidents"].size(), 1U);
    EXPECT_EQ(told.status_json["openIncidents"][0].value("state", ""), state);
    EXPECT_THAT(told.metrics, HasSubstr("moonfence_incidents_open 1\n"));
    EXPECT_THAT(told.metrics, HasSubstr("moonfence_incidents_stand{reason=\"" + reason +
                                        "\",state=\"" + state + "\"} 1\n"));
    if (!shown["pods"].empty() && !told.planned_pod().is_null()) {
      expect_same_of_pod(told, shown["pods"][0]);
    }
  }

  // What the pod's newest line says, and what a rehearsal comes to.
  static void expect_same_of_pod(const Told& told, const json& pod) {
    const json planned = told.planned_pod();
    std::set<std::string> reasons;
    for (const json& line : pod["lines"]) {
      reasons.insert(line["reason"].get<std::string>());
    }
    EXPECT_TRUE(reasons.contains(planned["because"]["reason"].get<std::string>()))
        << planned.dump(1) << pod.dump(1);
    static const std::map<std::string, std::string> fates = {
        {"delete", "It would be deleted."},
        {"refused", "It would be kept, although a policy wants it gone."},
        {"wait", "It would be kept for now."},
        {"keep", "It would be kept."}};
    EXPECT_THAT(told.explained, HasSubstr(fates.at(planned["verdict"].get<std::string>())));
    EXPECT_THAT(told.explained, HasSubstr(planned["because"]["reason"].get<std::string>()));
  }

  sim::World& world() { return run_->world(); }

 private:
  void ask_status(Told& told, WallTime now) {
    const sim::Object map = world().cluster().store().find(
        {.resource = "configmaps", .space = "moonfence", .name = "moonfence-status"});
    ClusterStatus status;
    if (map != nullptr) {
      std::tie(status.instance, status.report) = report_of(*map, "");
    }
    told.situation = status.situation();
    for (const sim::Object& node : world().cluster().store().list("nodes")) {
      (void)node;
      ++status.nodes;
    }
    told.status = status_text(status, now);
    told.status_json = json::parse(status_document(status, now).dump());
  }

  void ask_plan(Told& told, WallTime now) {
    const auto rehearsed = [this, now](bool although_up) {
      FrozenWorld frozen(world().cluster().server(0), kOrigin, now);
      return rehearse(sim_assignment(options_, "moonfence-0", kOrigin, seat_), {NodeName("n1")},
                      although_up, frozen.ground());
    };
    const auto as_it_is = rehearsed(false);
    ASSERT_TRUE(as_it_is) << as_it_is.error().message();
    const Plan plan = plan_of(*as_it_is);
    told.plan = json::parse(plan_document(plan).dump());
    told.plan_text = plan_table(plan, false);
    const auto supposed = rehearsed(true);
    ASSERT_TRUE(supposed);
    const sim::Object object =
        world().cluster().store().find({.resource = "pods", .space = "db", .name = "db-0"});
    if (object != nullptr) {
      const auto pod = kube::decode_pod(*object);
      told.explained =
          explained_text(explain({.space = Namespace("db"), .name = "db-0"}, pod->labels,
                                 *supposed->policies, plan_of(*supposed)));
    }
  }

  StatusBoard board_;
  SimReplicaOptions options_;
  Engine* engine_ = nullptr;
  std::string seat_;
  sim::Story story_;
  std::optional<sim::ScenarioRun> run_;
};

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
}  // namespace moonfence::app
