#pragma once

// One incident, and what everybody says of it who is asked: the page, /status.json, `moonfence
// status`, `plan`, `explain`, events and metrics.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/cluster_commands/explanation.h"
#include "app/cluster_commands/plan_text.h"
#include "app/cluster_commands/status_text.h"
#include "app/simulate/sim_replica.h"
#include "app/simulate/simulate_setup.h"
#include "app/status/status_json.h"
#include "app/web/status_page.h"
#include "kube/objects/decode.h"
#include "unit/app/frozen_world.h"

namespace moonfence::app::truth {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

inline constexpr const char* kOrigin = "http://api-0.sim";

// A policy of that name, and its binding to namespace db.
struct Part {
  std::string name = "test";
  std::string functions;
  std::string mode = "enforce";
  std::string space = "db";
  std::string trigger = "failures = 1, live_kubelet = true";
};
inline std::string policies(const std::vector<Part>& parts) {
  std::string bindings = "file      moonfence.yaml\n| api: 1\n| bindings:\n";
  std::string texts;
  for (const Part& part : parts) {
    bindings += "| - {policy: " + part.name + ", source: " + part.name + ".lua, namespaces: [" +
                part.space + "], mode: " + part.mode + ", holdDown: 0s}\n";
    texts += "file      " + part.name + ".lua\n| return policy {\n|   api = 1, name = \"" +
             part.name + "\", version = \"1.0.0\", summary = \"a test\",\n|   trigger = { " +
             part.trigger + " },\n|   " + part.functions + "\n| }\n";
  }
  return bindings + texts;
}
inline std::string pod(const std::string& body) {
  return "pod = function(pod) " + body + " end,";
}
// A policy of one verdict.
inline std::string policy(const std::string& body, const std::string& mode = "enforce",
                          const std::string& space = "db", const std::string& more = "") {
  return policies({{.functions = more + " " + pod(body), .mode = mode, .space = space}});
}
inline std::string deletes(const std::string& mode = "enforce") {
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
  std::vector<std::string> notes;             // of all of them
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
    options_.endpoints = *EndpointScript::parse(scenario->plan.responses, "responses");
    options_.status_board = &board_;
    options_.made = [this](Engine& engine) { engine_ = &engine; };
    seat_ = scenario->plan.seats.empty() ? "" : scenario->plan.seats.front();
    run_.emplace(*scenario, make_sim_replicas(options_), story_);
    run_until(until);
  }
  // Of the same run.
  void run_until(Duration until) {
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
      told.notes.push_back(event->at("note").get<std::string>());
      told.events[event->at("reason").get<std::string>()] += told.notes.back();
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
    expect_event(told, shown);
    const json engine = told.planned().value("engine", json::object());
    EXPECT_EQ(engine.value("state", ""), state);
    EXPECT_EQ(engine.value("reason", ""), reason);
    EXPECT_THAT(told.plan_text, HasSubstr("  the engine says: " + state));
    EXPECT_THAT(told.explained, HasSubstr("The engine says of the node: " + state));
    if (!shown["pods"].empty() && !told.planned_pod().is_null()) {
      expect_same_of_pod(told, shown["pods"][0]);
    }
  }

  // Some event of this incident says why it stands so, in the same words.
  static void expect_event(const Told& told, const json& shown) {
    // What follows are numbers and names that change from pass to pass.
    const std::string told_last = shown.value("text", shown.value("reason", ""));
    const std::string words = told_last.substr(0, told_last.find(';'));
    const bool is_told =
        std::any_of(told.notes.begin(), told.notes.end(), [&](const std::string& note) {
          return note.find("incident " + shown["id"].get<std::string>()) != std::string::npos &&
                 note.find(words) != std::string::npos;
        });
    EXPECT_TRUE(is_told) << words << testing::PrintToString(told.notes);
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
        {"refused", "It would not be deleted, although a policy wants that."},
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
    Plan plan = plan_of(*as_it_is);
    hear_engine(plan, told.situation);
    told.plan = json::parse(plan_document(plan).dump());
    told.plan_text = plan_table(plan, false);
    const auto supposed = rehearsed(true);
    ASSERT_TRUE(supposed);
    const sim::Object object =
        world().cluster().store().find({.resource = "pods", .space = "db", .name = "db-0"});
    if (object != nullptr) {
      const auto pod = kube::decode_pod(*object);
      Plan of_the_pod = plan_of(*supposed);
      hear_engine(of_the_pod, told.situation);
      told.explained = explained_text(explain({.space = Namespace("db"), .name = "db-0"},
                                              pod->labels, *supposed->policies, of_the_pod));
    }
  }

  StatusBoard board_;
  SimReplicaOptions options_;
  Engine* engine_ = nullptr;
  std::string seat_;
  sim::Story story_;
  std::optional<sim::ScenarioRun> run_;
};

}  // namespace moonfence::app::truth
