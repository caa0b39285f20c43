#include "fence/remediation/remediations.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "kube/wire/caller.h"
#include "support/fake_credentials.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"
#include "support/leadership.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kAll = "/apis/remediation.moonfence.io/v1alpha1/moonfenceremediations";
constexpr const char* kOnes =
    "/apis/remediation.moonfence.io/v1alpha1/namespaces/medik8s/moonfenceremediations/";

FakeAnswer refusal(int code, const std::string& reason) {
  return {.status = code,
          .body = json{
              {"kind", "Status"},
              {"status", "Failure"},
              {"reason", reason},
              {"message", "no"},
              {"details", {{"name", "it"}}},
              {"code",
               code}}.dump()};
}

// The objects behind a scripted API server: they can be patched by who has read them only.
struct RemediationServer {
  std::map<std::string, json> objects;
  std::optional<FakeAnswer> list_answer;   // in place of any
  std::optional<FakeAnswer> watch_answer;  // likewise
  std::optional<FakeAnswer> patch_answer;  // likewise
  std::function<void(const std::string& name)> before_patch = [](const std::string&) {};
  int version = 10;
  int patches = 0;

  explicit RemediationServer(test::FakeHttp& http) : http_(http) {
    http.on(port::Method::Get, kAll, [this](const FakeRequest& request) {
      if (list_answer) {
        return *list_answer;
      }
      const bool watches = request.query.find("watch=1") != std::string::npos;
      return watches && watch_answer ? *watch_answer
             : watches               ? FakeAnswer::watch()
                                     : list(request);
    });
    http.on(port::Method::Get, std::string(kOnes) + "*", [this](const FakeRequest& request) {
      const auto found = objects.find(request.path.substr(request.path.rfind('/') + 1));
      return found == objects.end() ? refusal(404, "NotFound")
                                    : FakeAnswer{.body = found->second.dump()};
    });
    http.on(port::Method::Patch, std::string(kOnes) + "*",
            [this](const FakeRequest& request) { return patch(request); });
  }

  json make(const std::string& name, json annotations = json::object()) {
    json& object = objects[name];
    object = {{"apiVersion", "remediation.moonfence.io/v1alpha1"},
              {"kind", "MoonfenceRemediation"},
              {"metadata",
               {{"name", name},
                {"namespace", "medik8s"},
                {"uid", "uid-" + name + "-" + std::to_string(version)},
                {"resourceVersion", next()},
                {"annotations", std::move(annotations)}}}};
    return object;
  }
  void tell(const char* type, const json& object) {
    http_.push("moonfenceremediations?watch=1",
               json{{"type", type}, {"object", object}}.dump() + "\n");
  }
  std::string next() { return std::to_string(++version); }

 private:
  FakeAnswer list(const FakeRequest& request) {
    json items = json::array();
    if (request.query.find("fieldSelector") == std::string::npos) {
      for (const auto& [name, object] : objects) {
        items.push_back(object);
      }
    }
    return {.body = json{
                {"kind", "MoonfenceRemediationList"},
                {"apiVersion", "remediation.moonfence.io/v1alpha1"},
                {"metadata", {{"resourceVersion", std::to_string(version)}}},
                {"items",
                 items}}.dump()};
  }

  FakeAnswer patch(const FakeRequest& request) {
    ++patches;
    std::string name = request.path.substr(std::string(kOnes).size());
    EXPECT_TRUE(name.ends_with("/status")) << request.path;
    name.resize(name.size() - std::string("/status").size());
    before_patch(name);
    if (patch_answer) {
      return *patch_answer;
    }
    const auto found = objects.find(name);
    if (found == objects.end()) {
      return refusal(404, "NotFound");
    }
    const json change = json::parse(request.body);
    const json& metadata = found->second["metadata"];
    for (const auto& [key, value] : change["metadata"].items()) {  // what is absent is not compared
      if (metadata[key] != value) {
        return refusal(409, "Conflict");
      }
    }
    found->second["status"].merge_patch(change["status"]);
    found->second["metadata"]["resourceVersion"] = next();
    tell("MODIFIED", found->second);
    return {.body = found->second.dump()};
  }

  test::FakeHttp& http_;
};

// The engine: nodes that a test decides about, and an incident where one is asked for.
struct Engine final : Remediations::Host {
  [[nodiscard]] bool is_informed() const override { return informed; }
  [[nodiscard]] const cluster::NodeView* find(const NodeName& name) const override {
    const auto found = nodes.find(name);
    return found == nodes.end() ? nullptr : &found->second;
  }
  bool ask(const NodeName& name) override {
    ++asked[name.text()];
    if (policy_acts && nodes.contains(name)) {
      open.insert(name);
    }
    return !joining;
  }
  void withdraw_all_but(const std::set<NodeName>& all) override { wanted = all; }
  [[nodiscard]] std::vector<IncidentStatus> incidents() const override {
    std::vector<IncidentStatus> all;
    for (const NodeName& name : open) {
      all.push_back({.incident = IncidentId("i-" + name.text()), .node = name});
    }
    return all;
  }
  [[nodiscard]] IncidentId incident_of(const NodeName& name) const override {
    return by_kubernetes ? IncidentId("i-" + name.text()) : IncidentId();
  }
  [[nodiscard]] WallTime now() const override { return WallTime(1767330000s); }

  void know(const std::string& name, cluster::Readiness readiness = cluster::Readiness::Unknown,
            const std::string& uid = "node-1") {
    nodes[NodeName(name)] = {.name = NodeName(name), .uid = Uid(uid), .readiness = readiness};
  }

  std::map<NodeName, cluster::NodeView> nodes;
  std::set<NodeName> open;
  std::map<std::string, int> asked;
  std::set<NodeName> wanted;
  bool informed = true;
  bool policy_acts = true;
  bool joining = false;
  bool by_kubernetes = true;
};

struct RemediationsTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  kube::Caller caller{loop, http, credentials, log, "https://api:6443", "moonfence/0.1"};
  test::FakeRandom random;
  test::FakeLeadership leadership;
  RemediationServer server{http};
  Engine engine;
  std::optional<Remediations> remediations;
  loop::Timer tick;

  void begin() {
    remediations.emplace(
        StatusWriter::Surroundings{
            .loop = loop, .caller = caller, .random = random, .log = log, .leadership = leadership},
        engine);
    look();
    remediations->lead();
  }
  void look() {
    tick = loop.after(1s, [this] {
      remediations->look();
      look();
    });
  }
  void run_for(Duration time) { test::run_for(loop, time); }
  void hear(audit::Record::Kind kind, audit::Reason reason, const std::string& node = "n1",
            const std::string& pod = "web-0", const std::string& attachment = "") {
    audit::Record record;
    record.pod = PodRef{.space = Namespace("db"), .name = pod};
    record.pod_uid = Uid("uid-" + pod);
    record.attachment_uid = Uid(attachment);
    record.kind = kind;
    record.reason = reason;
    record.incident = IncidentId("i-" + node);
    record.node = NodeName(node);
    remediations->hear(record);
  }
  // An incident of the node, from its beginning to its end.
  void settle(const std::string& node = "n1", audit::Reason reason = audit::Reason::Settled) {
    hear(audit::Record::Kind::IncidentOpened, audit::Reason::RemediationAsked, node);
    hear(audit::Record::Kind::Outcome, audit::Reason::Done, node);
    engine.open.erase(NodeName(node));
    hear(audit::Record::Kind::IncidentClosed, reason, node);
  }
  // "Processing/Succeeded reason".
  [[nodiscard]] std::string told(const std::string& name = "n1") const {
    std::map<std::string, std::string> by_type;
    std::string reason;
    const json& object = server.objects.at(name);
    for (const json& each : object.value("/status/conditions"_json_pointer, json::array())) {
      by_type[each["type"]] = each["status"];
      reason = each["type"] == "Succeeded" ? each["reason"].get<std::string>() : reason;
    }
    return by_type["Processing"] + "/" + by_type["Succeeded"] + " " + reason;
  }
};

TEST_F(RemediationsTest, a_node_that_is_down_is_asked_for_and_its_conditions_follow_its_incident) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(5s);
  EXPECT_EQ(engine.asked["n1"], 1);
  EXPECT_EQ(told(), "True/Unknown IncidentOpen");
  EXPECT_EQ(server.objects["n1"]["status"]["nodeUID"], "node-1");
  settle();
  run_for(1h);
  EXPECT_EQ(told(), "False/True NothingLeftToDo");
  EXPECT_EQ(engine.asked["n1"], 1);
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
}

TEST_F(RemediationsTest, nothing_is_written_while_nothing_is_new) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(10s);
  const int patches = server.patches;
  const auto requests = http.count("medik8s/moonfenceremediations/n1");
  run_for(1h);
  EXPECT_EQ(server.patches, patches);
  EXPECT_EQ(http.count("medik8s/moonfenceremediations/n1"), requests);
}

TEST_F(RemediationsTest, a_ready_node_is_not_asked_for_until_kubernetes_calls_it_down) {
  engine.know("n1", cluster::Readiness::True);
  server.make("n1");
  begin();
  run_for(10min);
  EXPECT_EQ(engine.asked.size(), 0U);
  EXPECT_EQ(told(), "True/Unknown NodeIsReady");
  engine.know("n1");
  run_for(5s);
  EXPECT_EQ(engine.asked["n1"], 1);
}

// What was done in an outage before says nothing of the next one.
TEST_F(RemediationsTest, an_incident_that_settled_before_the_node_was_ready_again_does_not_count) {
  engine.know("n1", cluster::Readiness::True);
  server.make("n1");
  begin();
  run_for(5s);
  settle();  // by somebody else's word
  run_for(5s);
  EXPECT_EQ(told(), "True/Unknown NodeIsReady");
  engine.know("n1");
  run_for(10s);
  EXPECT_EQ(told(), "True/Unknown IncidentOpen");
}

TEST_F(RemediationsTest, what_was_timed_out_is_not_asked_for_and_what_it_had_opened_is_withdrawn) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(5s);
  EXPECT_EQ(engine.wanted, std::set{NodeName("n1")});
  server.objects["n1"]["metadata"]["annotations"]["remediation.medik8s.io/nhc-timed-out"] =
      "2026-01-01T00:00:00Z";
  server.objects["n1"]["metadata"]["resourceVersion"] = server.next();
  server.tell("MODIFIED", server.objects["n1"]);
  run_for(2s);
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
  engine.open.clear();
  run_for(10min);
  EXPECT_EQ(told(), "False/False TimedOut");
  EXPECT_EQ(engine.asked["n1"], 1);
}

TEST_F(RemediationsTest, one_that_is_deleted_in_the_middle_is_withdrawn_and_not_written_any_more) {
  engine.know("n1");
  const json object = server.make("n1");
  begin();
  run_for(5s);
  server.objects.clear();
  server.tell("DELETED", object);
  run_for(2s);
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
  const int patches = server.patches;
  settle();
  run_for(10min);
  EXPECT_EQ(server.patches, patches);
}

TEST_F(RemediationsTest, one_that_waits_for_its_deletion_asks_for_nothing) {
  engine.know("n1");
  server.make("n1");
  server.objects["n1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  begin();
  run_for(10min);
  EXPECT_EQ(engine.asked.size(), 0U);
  EXPECT_EQ(server.patches, 0);
}

TEST_F(RemediationsTest, of_two_objects_for_a_node_both_are_told_and_one_is_enough_to_go_on) {
  engine.know("n1");
  server.make("n1");
  server.make("n1-x7", {{"remediation.medik8s.io/node-name", "n1"},
                        {"remediation.medik8s.io/nhc-timed-out", "x"}});
  begin();
  run_for(5s);
  EXPECT_EQ(told("n1"), "True/Unknown IncidentOpen");
  EXPECT_EQ(told("n1-x7"), "False/False TimedOut");
  EXPECT_EQ(engine.wanted, std::set{NodeName("n1")});
  settle();
  run_for(5s);
  EXPECT_EQ(told("n1"), "False/True NothingLeftToDo");
}

TEST_F(RemediationsTest,
       a_node_that_does_not_exist_is_told_after_a_while_and_one_made_anew_at_once) {
  server.make("nowhere");
  server.make("n1");
  engine.know("n1");
  begin();
  run_for(5s);
  EXPECT_EQ(told("nowhere"), "True/Unknown Looking");
  engine.know("n1", cluster::Readiness::Unknown, "node-2");
  run_for(10s);
  EXPECT_EQ(told("nowhere"), "False/False NodeNotFound");
  EXPECT_EQ(told("n1"), "False/False NodeReplaced");
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
}

// Also where the first status never came to stand there.
TEST_F(RemediationsTest, the_node_is_remembered_while_the_server_refuses_to_be_told) {
  engine.know("n1");
  server.make("n1");
  server.patch_answer = refusal(403, "Forbidden");
  begin();
  run_for(5s);
  engine.know("n1", cluster::Readiness::Unknown, "node-2");
  engine.open.clear();
  run_for(5s);
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
  server.patch_answer.reset();
  run_for(5min);
  EXPECT_EQ(told(), "False/False NodeReplaced");
}

TEST_F(RemediationsTest, a_refused_status_is_tried_seldom_told_once_and_hinders_nothing) {
  engine.know("n1");
  server.make("n1");
  server.patch_answer = refusal(403, "Forbidden");
  begin();
  run_for(10min);
  EXPECT_EQ(engine.asked["n1"], 1);
  EXPECT_LE(server.patches, 12);
  EXPECT_EQ(log.count("remediation_not_told"), 1U);
  EXPECT_NE(remediations->problem().find("medik8s/n1"), std::string::npos);
  server.patch_answer.reset();
  run_for(2min);
  EXPECT_EQ(told(), "True/Unknown IncidentOpen");
  EXPECT_EQ(remediations->problem(), "");
}

TEST_F(RemediationsTest, what_was_changed_in_between_is_read_and_decided_again) {
  engine.know("n1");
  server.make("n1");
  server.before_patch = [this](const std::string& name) {
    if (server.patches == 1) {
      json& metadata = server.objects[name]["metadata"];
      metadata["annotations"]["remediation.medik8s.io/nhc-timed-out"] = "x";
      metadata["resourceVersion"] = server.next();
    }
  };
  begin();
  run_for(5s);
  EXPECT_EQ(told(), "False/False TimedOut");
  EXPECT_EQ(server.patches, 2);
}

// However often the objects are made anew.
TEST_F(RemediationsTest, a_node_is_asked_for_every_ten_seconds_at_most) {
  engine.know("n1");
  engine.policy_acts = false;
  begin();
  for (int i = 0; i < 60; ++i) {
    server.tell("ADDED", server.make("n1-" + std::to_string(i),
                                     {{"remediation.medik8s.io/node-name", "n1"}}));
    run_for(1s);
  }
  EXPECT_GE(engine.asked["n1"], 5);
  EXPECT_LE(engine.asked["n1"], 7);
}

// A list in the middle, as after a watch that broke: what is known of the object stays.
TEST_F(RemediationsTest, a_new_list_forgets_nothing_of_what_is_there_and_what_is_not_in_it) {
  engine.know("n1");
  engine.know("n2");
  server.make("n1");
  server.make("n2");
  begin();
  run_for(5s);
  remediations->on_init();
  settle("n1");
  remediations->on_init_apply(server.objects["n1"]);
  remediations->on_init_done();
  run_for(5s);
  EXPECT_EQ(told("n1"), "False/True NothingLeftToDo");
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
}

TEST_F(RemediationsTest, one_of_the_same_name_is_another) {
  engine.know("n1");
  const json before = server.make("n1");
  begin();
  run_for(5s);
  settle();
  run_for(2s);
  server.tell("DELETED", before);
  server.tell("ADDED", server.make("n1"));
  run_for(15s);
  EXPECT_EQ(engine.asked["n1"], 2);
  EXPECT_EQ(told(), "True/Unknown IncidentOpen");
}

TEST_F(RemediationsTest, without_a_policy_it_says_so_and_asks_now_and_then) {
  engine.know("n1");
  engine.policy_acts = false;
  server.make("n1");
  begin();
  run_for(5s);
  EXPECT_EQ(told(), "True/Unknown NoPolicyActs");
  run_for(95s);
  EXPECT_LE(engine.asked["n1"], 11);
  engine.joining = true;
  run_for(2min);
  EXPECT_EQ(told(), "True/Unknown NodeIsJoining");
}

TEST_F(RemediationsTest, only_what_was_really_done_succeeds) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(5s);
  hear(audit::Record::Kind::IncidentOpened, audit::Reason::RemediationAsked);
  hear(audit::Record::Kind::Refusal, audit::Reason::ModeObserves);
  hear(audit::Record::Kind::Refusal, audit::Reason::ModeObserves, "n1", "web-1");
  hear(audit::Record::Kind::Outcome, audit::Reason::Done, "n1", "web-1");
  engine.open.clear();
  hear(audit::Record::Kind::IncidentClosed, audit::Reason::Settled);
  run_for(5s);
  EXPECT_EQ(told(), "False/False OnlyObserved") << "web-0 is still there";
}

TEST_F(RemediationsTest, what_was_observed_first_and_deleted_then_succeeds) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(5s);
  hear(audit::Record::Kind::IncidentOpened, audit::Reason::RemediationAsked);
  hear(audit::Record::Kind::Refusal, audit::Reason::ModeObserves);
  hear(audit::Record::Kind::Outcome, audit::Reason::Done);
  hear(audit::Record::Kind::Refusal, audit::Reason::ModeObserves);
  engine.open.clear();
  hear(audit::Record::Kind::IncidentClosed, audit::Reason::Settled);
  run_for(5s);
  EXPECT_EQ(told(), "False/True NothingLeftToDo");
}

// What the incident gives up for good is no success, also where it is a volume only.
TEST_F(RemediationsTest, what_is_refused_for_good_is_no_success) {
  for (const audit::Reason reason :
       {audit::Reason::ProtectedNamespace, audit::Reason::OwnNode, audit::Reason::DriverNotDeclared,
        audit::Reason::AttachmentMismatch}) {
    const std::string name = "n" + std::to_string(static_cast<int>(reason));
    engine.know(name);
    server.make(name);
    if (!remediations) {
      begin();
    } else {
      server.tell("ADDED", server.objects[name]);
    }
    run_for(5s);
    hear(audit::Record::Kind::IncidentOpened, audit::Reason::RemediationAsked, name);
    hear(audit::Record::Kind::Outcome, audit::Reason::Done, name);
    hear(audit::Record::Kind::Refusal, reason, name, "web-0", "va-web-0");
    engine.open.clear();
    hear(audit::Record::Kind::IncidentClosed, audit::Reason::Settled, name);
    run_for(5s);
    EXPECT_EQ(told(name), "False/False Refused") << static_cast<int>(reason);
  }
}

// It went by other bindings: what Kubernetes' word would do is not done.
TEST_F(RemediationsTest, an_incident_by_a_health_source_does_not_count) {
  engine.know("n1");
  engine.policy_acts = false;
  engine.by_kubernetes = false;
  server.make("n1");
  begin();
  run_for(5s);
  settle();
  run_for(5s);
  EXPECT_EQ(told(), "True/Unknown NoPolicyActs");
}

TEST_F(RemediationsTest, an_incident_that_the_node_s_return_ended_is_no_success) {
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(5s);
  engine.know("n1", cluster::Readiness::True);
  settle("n1", audit::Reason::NodeReady);
  run_for(2min);
  EXPECT_EQ(told(), "True/Unknown NodeIsReady");
}

TEST_F(RemediationsTest, the_next_leader_goes_on_from_the_objects_and_does_nothing_twice) {
  engine.know("n1");
  engine.know("n2");
  server.make("n1");
  server.make("n2");
  begin();
  run_for(5s);
  settle("n1");
  run_for(5s);
  remediations->step_down();
  const int patches = server.patches;
  begin();
  run_for(1h);
  EXPECT_EQ(told("n1"), "False/True NothingLeftToDo");
  EXPECT_EQ(told("n2"), "True/Unknown IncidentOpen");
  EXPECT_EQ(engine.asked["n1"], 1);
  EXPECT_EQ(server.patches, patches);
}

TEST_F(RemediationsTest, nothing_is_asked_or_written_by_whoever_does_not_lead_or_knows_too_little) {
  engine.know("n1");
  server.make("n1");
  engine.informed = false;
  begin();
  run_for(1min);
  EXPECT_EQ(engine.asked.size(), 0U);
  EXPECT_EQ(server.patches, 0);
  leadership.until = std::nullopt;
  engine.informed = true;
  run_for(1min);
  EXPECT_EQ(server.patches, 0);
  remediations->step_down();
  leadership.until = Moment::max();
  const auto requests = http.requests.size();
  run_for(10min);
  EXPECT_EQ(http.requests.size(), requests);
}

TEST_F(RemediationsTest, a_kind_that_is_not_installed_is_told_once_and_looked_for_seldom) {
  server.list_answer = FakeAnswer{.status = 404, .body = "404 page not found\n", .headers = {}};
  engine.know("n1");
  begin();
  run_for(10min);
  EXPECT_LE(http.requests.size(), 11U);
  EXPECT_EQ(log.count("remediations_unwatched"), 1U);
  EXPECT_NE(remediations->problem().find("not installed"), std::string::npos);
  server.list_answer = refusal(403, "Forbidden");
  run_for(2min);
  EXPECT_NE(remediations->problem().find("may not read"), std::string::npos);
  server.list_answer.reset();
  server.make("n1");
  run_for(2min);
  EXPECT_EQ(remediations->problem(), "");
  EXPECT_EQ(told(), "True/Unknown IncidentOpen");
}

// For nodes that do not exist or exist twice, and one that is real.
TEST_F(RemediationsTest, a_flood_is_told_at_a_measured_pace_and_does_not_hinder_what_is_real) {
  engine.know("real");
  for (int i = 0; i < 1900; ++i) {
    server.make("flood-" + std::to_string(i),
                {{"remediation.medik8s.io/node-name", i < 10 ? "nowhere" : "../etc"}});
  }
  server.make("real");
  begin();
  run_for(10s);
  EXPECT_EQ(engine.asked["real"], 1);
  EXPECT_EQ(engine.asked.size(), 1U);
  EXPECT_LE(server.patches, 400);
  for (int i = 0; i < 4; ++i) {
    run_for(1min);
  }
  EXPECT_EQ(told("real"), "True/Unknown IncidentOpen");
  EXPECT_EQ(told("flood-0"), "False/False NodeNotFound");
  EXPECT_EQ(told("flood-1899"), "False/False InvalidNodeName");
  const int patches = server.patches;
  run_for(1min);
  EXPECT_EQ(server.patches, patches);
  EXPECT_EQ(remediations->problem(), "");
}

TEST_F(RemediationsTest, of_too_many_the_rest_is_left_out_until_there_is_room) {
  engine.know("real");
  engine.know("later");
  server.make("real");
  begin();
  run_for(5s);
  for (int i = 0; i < 3000; ++i) {  // "flood" stands before "real" in a list
    server.make("flood-" + std::to_string(i), {{"remediation.medik8s.io/node-name", "../etc"}});
  }
  remediations->on_init();
  for (const auto& [name, object] : server.objects) {
    remediations->on_init_apply(object);
  }
  remediations->on_init_done();
  EXPECT_NE(remediations->problem().find("more than 2000"), std::string::npos);
  remediations->on_apply(server.make("later"));
  run_for(5s);
  EXPECT_NE(remediations->problem().find("more than 2000"), std::string::npos);
  EXPECT_EQ(engine.asked["later"], 0);
  EXPECT_EQ(engine.wanted, std::set{NodeName("real")}) << "what is known is kept";
  settle("real");
  run_for(90s);
  EXPECT_EQ(told("real"), "False/True NothingLeftToDo");
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "flood-" + std::to_string(i);
    remediations->on_delete(server.objects[name]);
    server.objects.erase(name);
  }
  run_for(10s);
  EXPECT_EQ(remediations->problem(), "");
  EXPECT_EQ(engine.asked["later"], 1);
}

// What it knows may be long gone.
TEST_F(RemediationsTest, a_watch_that_is_broken_for_long_asks_for_nothing_and_withdraws_nothing) {
  engine.know("n1");
  engine.policy_acts = false;
  server.make("n1");
  begin();
  run_for(5s);
  server.watch_answer = refusal(500, "InternalError");
  server.list_answer = refusal(500, "InternalError");
  http.close("moonfenceremediations?watch=1");
  run_for(6min);
  const int asked = engine.asked["n1"];
  EXPECT_GT(asked, 10);
  engine.wanted = {NodeName("n9")};
  remediations->on_delete(server.objects["n1"]);
  run_for(5min);
  EXPECT_EQ(engine.asked["n1"], asked);
  EXPECT_EQ(engine.wanted, std::set{NodeName("n9")});
}

TEST_F(RemediationsTest, what_the_server_does_not_have_is_not_asked_for_any_more) {
  engine.know("n1");
  engine.policy_acts = false;
  server.make("n1");
  server.patch_answer = refusal(409, "Conflict");
  begin();
  run_for(2s);
  server.objects.clear();  // and the watch says nothing
  run_for(5s);
  const int asked = engine.asked["n1"];
  run_for(1min);
  EXPECT_EQ(engine.asked["n1"], asked);
  EXPECT_EQ(engine.wanted, std::set<NodeName>{});
}

TEST_F(RemediationsTest, a_second_object_of_a_node_is_told_the_same) {
  engine.know("n1");
  engine.policy_acts = false;
  engine.joining = true;
  server.make("n1");
  begin();
  run_for(2s);
  server.tell("ADDED", server.make("n1-b", {{"remediation.medik8s.io/node-name", "n1"}}));
  run_for(5s);
  EXPECT_EQ(engine.asked["n1"], 1);
  EXPECT_EQ(told("n1"), "True/Unknown NodeIsJoining");
  EXPECT_EQ(told("n1-b"), "True/Unknown NodeIsJoining");
}

// It would look like an API server that fails, and nothing would be fenced.
TEST_F(RemediationsTest, what_becomes_of_its_calls_says_nothing_of_the_server) {
  struct Observer final : kube::CallObserver {
    void on_exchange(port::Method method, int status, Duration /*took*/,
                     std::optional<WallTime> /*date*/) override {
      if (method != port::Method::Get || status == 404) {
        ++failures;
      }
    }
    int failures = 0;
  } observer;
  caller.observe(&observer);
  server.list_answer = FakeAnswer{.status = 404, .body = "404 page not found\n", .headers = {}};
  engine.know("n1");
  server.make("n1");
  begin();
  run_for(90s);
  server.list_answer.reset();
  server.patch_answer = refusal(500, "InternalError");
  run_for(2min);
  EXPECT_GE(server.patches, 1);
  EXPECT_EQ(observer.failures, 0);
  caller.observe(nullptr);
}

TEST_F(RemediationsTest, a_problem_goes_when_somebody_else_has_written_what_is_right) {
  engine.know("n1");
  server.make("n1");
  server.patch_answer = refusal(403, "Forbidden");
  begin();
  run_for(5s);
  ASSERT_NE(remediations->problem(), "");
  server.patch_answer = refusal(422, "Invalid");
  run_for(2min);
  EXPECT_EQ(log.count("remediation_not_told"), 2U) << "another kind of failure is told, too";
  server.objects["n1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  server.tell("MODIFIED", server.objects["n1"]);
  run_for(2s);
  EXPECT_EQ(remediations->problem(), "");
}

TEST_F(RemediationsTest, also_a_server_that_fails_is_a_problem) {
  server.list_answer = refusal(500, "InternalError");
  begin();
  run_for(30s);
  EXPECT_NE(remediations->problem().find("cannot be read"), std::string::npos);
  EXPECT_EQ(log.count("remediations_unwatched"), 1U);
  server.list_answer.reset();
  run_for(2min);
  EXPECT_EQ(remediations->problem(), "");
}

}  // namespace
}  // namespace moonfence::fence
