#include "fence/display/incident_display.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

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
using audit::Reason;
using nlohmann::json;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kAll = "/apis/moonfence.io/v1alpha1/namespaces/moonfence/fencingincidents";
const WallTime kOpened = WallTime(1767330000s);

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

// The kind behind a scripted API server.
struct ObjectServer {
  std::map<std::string, json> objects;
  bool is_installed = true;
  Duration delay{};
  std::optional<FakeAnswer> write_answer;  // in place of any
  std::function<void()> before_patch;
  int made = 0;
  int patched = 0;

  explicit ObjectServer(test::FakeHttp& http) {
    const std::string one = std::string(kAll) + "/*";
    http.on(port::Method::Get, kAll, [this](const FakeRequest&) {
      return answer({.body = json{{"kind", "FencingIncidentList"},
                                  {"metadata", {{"resourceVersion", "9"}}},
                                  {"items", json::array()}}
                                 .dump()});
    });
    http.on(port::Method::Get, one, [this](const FakeRequest& request) {
      const auto found = objects.find(name_in(request.path));
      return answer(found == objects.end() ? refusal(404, "NotFound")
                                           : FakeAnswer{.body = found->second.dump()});
    });
    http.on(port::Method::Post, kAll, [this](const FakeRequest& request) {
      return write_answer ? *write_answer : answer(create(json::parse(request.body)));
    });
    http.on(port::Method::Patch, one, [this](const FakeRequest& request) {
      if (before_patch) {
        before_patch();
      }
      return write_answer ? *write_answer : answer(patch(request));
    });
  }

  json& at(const std::string& id) { return objects.at("moonfence-incident-" + id); }
  [[nodiscard]] bool has(const std::string& id) const {
    return objects.contains("moonfence-incident-" + id);
  }
  std::string settled(const std::string& id) {
    return has(id) && at(id).contains("status")
               ? at(id)["status"]["conditions"][0]["status"].get<std::string>()
               : "";
  }

 private:
  static std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  FakeAnswer answer(FakeAnswer usual) const {
    usual.delay = delay;
    return is_installed ? usual
                        : FakeAnswer{.status = 404,
                                     .body = "404 page not found\n",
                                     .headers = {{"content-type", "text/plain; charset=utf-8"}}};
  }
  FakeAnswer create(json object) {
    const std::string name = object["metadata"]["name"];
    if (objects.contains(name)) {
      return refusal(409, "AlreadyExists");
    }
    EXPECT_FALSE(object.contains("status")) << "which the server would drop";
    object["metadata"]["uid"] = "obj-" + std::to_string(++made);
    object["metadata"]["resourceVersion"] = "1";
    objects[name] = object;
    return {.status = 201, .body = object.dump()};
  }
  FakeAnswer patch(const FakeRequest& request) {
    EXPECT_TRUE(request.path.ends_with("/status")) << request.path;
    const auto found = objects.find(name_in(request.path.substr(0, request.path.rfind('/'))));
    if (found == objects.end()) {
      return refusal(404, "NotFound");
    }
    const json changes = json::parse(request.body);
    json& metadata = found->second["metadata"];
    if (changes[0]["value"] != metadata["uid"] ||
        changes[1]["value"] != metadata["resourceVersion"]) {
      return refusal(422, "Invalid");
    }
    ++patched;
    metadata["resourceVersion"] = std::to_string(100 + patched);
    found->second["status"] = changes[2]["value"];
    return {.body = found->second.dump()};
  }
};

struct Engine final : IncidentDisplay::Host {
  [[nodiscard]] std::vector<IncidentStatus> incidents() const override { return open; }
  [[nodiscard]] std::map<IncidentId, JudgedPods> judged() const override { return pods; }
  [[nodiscard]] bool is_acting() const override { return acting; }
  [[nodiscard]] WallTime now() const override { return kOpened + clock->now().time_since_epoch(); }

  std::vector<IncidentStatus> open;
  std::map<IncidentId, JudgedPods> pods;
  bool acting = false;
  loop::Loop* clock = nullptr;
};

struct IncidentDisplayTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeCredentials credentials;
  test::FakeLog log;
  test::FakeRandom random;
  kube::Caller caller{loop, http, credentials, log, "https://api:6443", "moonfence/0.1"};
  test::FakeLeadership leadership;
  ObjectServer server{http};
  Engine engine;
  IncidentDisplay display{
      {.loop = loop, .caller = caller, .random = random, .log = log, .leadership = leadership},
      Namespace("moonfence"),
      engine};
  loop::Timer tick;

  IncidentDisplayTest() {
    engine.clock = &loop;
    look();
  }

  void look() {
    display.look();
    tick = loop.after(1s, [this] { look(); });
  }
  void run_for(Duration duration) { test::run_for(loop, duration); }

  static IncidentRecord record(const std::string& id, std::size_t deleted = 0) {
    IncidentRecord made;
    made.id = IncidentId(id);
    made.node = NodeName("n-" + id);
    made.node_uid = Uid("uid-" + id);
    made.opened = kOpened;
    for (std::size_t i = 0; i < 3; ++i) {
      IncidentRecord::Step step;
      step.pod_uid = Uid(id + std::to_string(i));
      if (i < deleted) {
        step.sent = kOpened + 1s;
        step.outcome = Reason::Done;
      }
      made.steps.push_back(step);
    }
    return made;
  }
  static IncidentRecord closed(IncidentRecord record) {
    record.closed = {.at = kOpened + 100s, .reason = Reason::Settled};
    return record;
  }
  static IncidentStatus status(const std::string& id, IncidentStatus::State state,
                               const std::string& text = {}) {
    return {.incident = IncidentId(id),
            .node = NodeName("n-" + id),
            .opened = kOpened,
            .state = state,
            .reason = Reason::TooManyDown,
            .text = text};
  }
  void stands(const IncidentRecord& record) {
    display.stands(record, Uid("map-" + record.id.text()));
  }
  [[nodiscard]] std::size_t calls() const { return http.requests.size(); }
};

TEST_F(IncidentDisplayTest, an_incident_is_shown_when_its_record_stands_until_it_is_over) {
  // row FI-01
  display.lead();
  run_for(5s);
  EXPECT_EQ(server.objects.size(), 0U);
  stands(record("i1"));
  engine.open = {status("i1", IncidentStatus::State::UnderWay)};
  engine.pods[IncidentId("i1")] = {.judged = 5, .waiting = 2, .left_alone = 0, .would_delete = 0};
  run_for(7s);
  ASSERT_TRUE(server.has("i1"));
  EXPECT_EQ(server.at("i1")["status"]["phase"], "UnderWay");
  EXPECT_EQ(server.at("i1")["status"]["pods"]["waiting"], 2);
  EXPECT_EQ(server.at("i1")["status"]["pods"]["deleted"], 0);
  EXPECT_EQ(server.settled("i1"), "False");
  stands(record("i1", 3));
  run_for(7s);
  EXPECT_EQ(server.at("i1")["status"]["pods"]["deleted"], 3);
  engine.open.clear();
  stands(closed(record("i1", 3)));
  run_for(2s);
  EXPECT_EQ(server.settled("i1"), "True");
  EXPECT_EQ(server.at("i1")["status"]["phase"], "Closed");
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, what_says_the_same_is_not_written_again) {
  display.lead();
  stands(record("i1"));
  stands(closed(record("i2")));
  engine.open = {status("i1", IncidentStatus::State::Waits)};
  run_for(20s);
  const int patched = server.patched;
  const std::size_t before = calls();
  stands(record("i1"));
  stands(closed(record("i2")));
  run_for(4min);
  EXPECT_EQ(calls(), before);
  run_for(10min);
  EXPECT_EQ(server.patched, patched);
  EXPECT_LE(calls() - before, 4U) << "an open one is looked at every five minutes";
}

TEST_F(IncidentDisplayTest, a_text_that_changes_each_second_is_written_once_a_minute) {
  display.lead();
  stands(record("i1"));
  for (int i = 0; i < 600; ++i) {
    engine.open = {status("i1", IncidentStatus::State::Waits, "for " + std::to_string(i) + " s")};
    run_for(1s);
  }
  EXPECT_LE(server.patched, 12);
  EXPECT_GE(server.patched, 8);
}

TEST_F(IncidentDisplayTest, a_record_that_changes_each_second_is_written_every_five) {
  display.lead();
  IncidentRecord growing = record("i1");
  for (int i = 0; i < 60; ++i) {
    growing.steps.push_back(growing.steps.front());
    stands(growing);
    run_for(1s);
  }
  EXPECT_LE(server.patched, 13);
  EXPECT_GE(server.patched, 9);
}

TEST_F(IncidentDisplayTest, what_is_held_for_a_minute_is_stalled) {
  display.lead();
  stands(record("i1"));
  engine.open = {status("i1", IncidentStatus::State::Held, "9 of 10 are down")};
  run_for(50s);
  EXPECT_EQ(server.at("i1")["status"]["conditions"][2]["status"], "False");
  run_for(20s);
  EXPECT_EQ(server.at("i1")["status"]["conditions"][2]["status"], "True");
  engine.open = {status("i1", IncidentStatus::State::UnderWay)};
  run_for(10s);
  EXPECT_EQ(server.at("i1")["status"]["conditions"][2]["status"], "False");
}

TEST_F(IncidentDisplayTest, only_the_leader_writes_and_the_next_one_finishes_what_is_left) {
  stands(record("i1"));
  run_for(1min);
  EXPECT_EQ(calls(), 0U);
  display.lead();
  stands(record("i1"));
  run_for(5s);
  EXPECT_EQ(server.settled("i1"), "False");
  display.step_down();
  const std::size_t before = calls();
  stands(closed(record("i1")));
  run_for(1min);
  EXPECT_EQ(calls(), before);
  display.lead();
  stands(closed(record("i1")));
  run_for(5s);
  EXPECT_EQ(server.settled("i1"), "True");
  leadership.until = std::nullopt;
  stands(record("i2"));
  run_for(1min);
  EXPECT_FALSE(server.has("i2"));
}

TEST_F(IncidentDisplayTest, nothing_is_begun_while_calls_act) {
  display.lead();
  run_for(5s);
  const std::size_t before = calls();
  engine.acting = true;
  stands(record("i1"));
  run_for(1min);
  EXPECT_EQ(calls(), before);
  engine.acting = false;
  run_for(5s);
  EXPECT_TRUE(server.has("i1"));
}

// A webhook that hangs would take a place from the lists of pods.
TEST_F(IncidentDisplayTest, a_call_that_hangs_is_given_up_when_an_incident_opens) {
  display.lead();
  run_for(5s);
  server.write_answer = FakeAnswer::silent();
  stands(record("i1"));
  test::run_until(
      loop, [this] { return http.open_exchanges() > 0; }, 5s);
  ASSERT_EQ(http.open_exchanges(), 1U);
  display.give_way();
  EXPECT_EQ(http.open_exchanges(), 0U);
  run_for(900ms);
  EXPECT_EQ(http.open_exchanges(), 0U);
  server.write_answer.reset();
  run_for(5s);
  EXPECT_EQ(server.settled("i1"), "False") << "what was given up is done later";
}

TEST_F(IncidentDisplayTest, one_that_hangs_keeps_no_other_waiting_for_long_and_is_tried_seldom) {
  display.lead();
  run_for(5s);
  server.write_answer = FakeAnswer::silent();
  stands(record("i1"));
  run_for(30min);
  EXPECT_LE(http.count("POST"), 20U);
  EXPECT_NE(display.problem(), "");
  server.write_answer.reset();
  stands(record("i2"));
  run_for(1min);
  EXPECT_TRUE(server.has("i2"));
  run_for(6min);
  EXPECT_TRUE(server.has("i1"));
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, where_the_kind_is_missing_it_is_looked_for_once_a_minute) {
  // row FI-02
  server.is_installed = false;
  display.lead();
  stands(record("i1"));
  run_for(10min);
  EXPECT_LE(calls(), 11U);
  EXPECT_EQ(display.problem(),
            "the kind FencingIncident is not installed (kubectl apply -k deploy/rights/incidents)");
  server.is_installed = true;
  run_for(62s);
  EXPECT_TRUE(server.has("i1"));
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, when_the_kind_was_removed_and_is_back_all_are_shown_again) {
  display.lead();
  stands(closed(record("i1")));
  run_for(5s);
  server.is_installed = false;
  server.objects.clear();
  stands(record("i2"));
  run_for(2min);
  EXPECT_NE(display.problem(), "");
  server.is_installed = true;
  run_for(2min);
  EXPECT_TRUE(server.has("i1"));
  EXPECT_TRUE(server.has("i2"));
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, where_the_right_is_missing_it_says_so_and_tries_seldom) {
  display.lead();
  run_for(5s);
  server.write_answer = refusal(403, "Forbidden");
  stands(record("i1"));
  run_for(10min);
  EXPECT_LE(http.count("POST"), 10U);
  EXPECT_NE(display.problem().find("FencingIncident moonfence-incident-i1"), std::string::npos);
  server.write_answer.reset();
  run_for(6min);
  EXPECT_TRUE(server.has("i1"));
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, somebody_elses_object_of_that_name_is_left_alone_and_told) {
  // row FI-01
  const json foreign = {{"metadata", {{"name", "moonfence-incident-i1"}, {"uid", "theirs"}}},
                        {"status", {{"phase", "Closed"}}}};
  server.objects["moonfence-incident-i1"] = foreign;
  display.lead();
  stands(record("i1"));
  stands(record("i2"));
  run_for(10min);
  EXPECT_EQ(server.at("i1"), foreign);
  EXPECT_TRUE(server.has("i2"));
  EXPECT_NE(display.problem().find("is left alone"), std::string::npos);
  EXPECT_NE(display.problem().find("delete fencingincident moonfence-incident-i1"),
            std::string::npos);
  server.objects.erase("moonfence-incident-i1");
  run_for(6min);
  EXPECT_EQ(server.settled("i1"), "False");
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, what_somebody_wrote_into_ours_is_put_right) {
  display.lead();
  stands(record("i1"));
  run_for(5s);
  const json right = server.at("i1")["status"];
  server.at("i1")["status"] = {{"phase", "Closed"}, {"conditions", "x"}};
  run_for(6min);
  EXPECT_EQ(server.at("i1")["status"], right);
}

TEST_F(IncidentDisplayTest, an_object_that_was_made_anew_in_between_is_read_again) {
  display.lead();
  run_for(5s);
  server.write_answer = refusal(409, "AlreadyExists");
  stands(record("i1"));
  run_for(3s);
  server.write_answer.reset();
  run_for(30s);
  EXPECT_EQ(server.settled("i1"), "False");
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, of_a_record_that_was_removed_nothing_more_is_written) {
  display.lead();
  run_for(5s);
  server.write_answer = FakeAnswer{.status = 201, .body = "{}", .delay = 2s};
  stands(record("i1"));
  run_for(1s);
  display.removed(IncidentId("i1"));
  server.write_answer.reset();
  const std::size_t before = calls();
  run_for(10min);
  EXPECT_EQ(calls(), before);
  EXPECT_EQ(http.count("DELETE"), 0U) << "Kubernetes removes it with its owner";
}

TEST_F(IncidentDisplayTest, answers_that_nobody_understands_do_no_harm) {
  display.lead();
  run_for(5s);
  for (const std::string& body :
       {std::string("[]"), std::string("7"), std::string("{\"metadata\":[]}"), std::string("x")}) {
    server.write_answer = FakeAnswer{.status = 201, .body = body};
    stands(record("i1"));
    run_for(1min);
  }
  server.write_answer.reset();
  run_for(10min);
  EXPECT_EQ(server.settled("i1"), "False");
}

// One wrong look is no news.
TEST_F(IncidentDisplayTest, what_is_not_held_for_a_moment_is_still_stalled) {
  display.lead();
  stands(record("i1"));
  engine.open = {status("i1", IncidentStatus::State::Held, "9 of 10 are down")};
  run_for(70s);
  engine.open = {status("i1", IncidentStatus::State::UnderWay)};
  run_for(3s);
  engine.open = {status("i1", IncidentStatus::State::Held, "9 of 10 are down")};
  run_for(10s);
  EXPECT_EQ(server.at("i1")["status"]["conditions"][2]["status"], "True");
  engine.open = {status("i1", IncidentStatus::State::Verifying)};
  run_for(6s);
  EXPECT_EQ(server.at("i1")["status"]["conditions"][2]["status"], "False");
}

TEST_F(IncidentDisplayTest, what_was_read_is_not_written_while_calls_act) {
  display.lead();
  run_for(5s);
  server.delay = 500ms;
  stands(record("i1"));
  test::run_until(
      loop, [this] { return http.open_exchanges() > 0; }, 5s);
  engine.acting = true;  // while it is read
  run_for(1min);
  EXPECT_FALSE(server.has("i1"));
  engine.acting = false;
  test::run_until(
      loop, [this] { return server.has("i1"); }, 10s);
  engine.acting = true;  // while it is created
  run_for(1min);
  EXPECT_EQ(server.patched, 0);
  engine.acting = false;
  run_for(5s);
  EXPECT_EQ(server.settled("i1"), "False");
}

TEST_F(IncidentDisplayTest, an_object_that_changed_since_it_was_read_is_read_again_and_not_told) {
  display.lead();
  run_for(5s);
  server.before_patch = [this] {
    server.at("i1")["metadata"]["resourceVersion"] = "77";
    server.before_patch = nullptr;
  };
  stands(record("i1"));
  run_for(3s);
  EXPECT_EQ(server.patched, 0);
  EXPECT_EQ(display.problem(), "");
  run_for(5s);
  EXPECT_EQ(server.settled("i1"), "False");
  server.write_answer = refusal(422, "Invalid");
  stands(record("i1", 2));
  run_for(1min);
  EXPECT_NE(display.problem(), "") << "that is not somebody who was faster";
}

TEST_F(IncidentDisplayTest, one_that_has_ended_is_looked_at_once_more) {
  display.lead();
  stands(record("i1"));
  run_for(5s);
  stands(closed(record("i1")));
  run_for(5s);
  ASSERT_EQ(server.settled("i1"), "True");
  server.at("i1")["status"]["phase"] = "UnderWay";  // by a write that was given up
  run_for(6min);
  EXPECT_EQ(server.at("i1")["status"]["phase"], "Closed");
  const std::size_t before = calls();
  run_for(30min);
  EXPECT_LE(calls() - before, 1U);
}

TEST_F(IncidentDisplayTest, one_that_went_is_not_made_again_beside_the_same_record) {
  display.lead();
  stands(record("i1"));
  run_for(5s);
  server.objects.clear();
  stands(record("i1", 2));
  run_for(11min);
  EXPECT_FALSE(server.has("i1"));
  EXPECT_EQ(display.problem(), "");
  display.stands(record("i1", 2), Uid("another-map"));
  run_for(10s);
  EXPECT_EQ(server.settled("i1"), "False");
}

TEST_F(IncidentDisplayTest, a_pause_that_the_server_asked_for_is_kept_when_an_incident_opens) {
  display.lead();
  run_for(5s);
  FakeAnswer busy = refusal(429, "TooManyRequests");
  busy.headers.push_back({.name = "retry-after", .value = "30"});
  server.write_answer = busy;
  stands(record("i1"));
  run_for(3s);
  const std::size_t before = calls();
  display.give_way();
  stands(record("i2"));
  run_for(20s);
  EXPECT_EQ(calls(), before);
}

TEST_F(IncidentDisplayTest, a_lasting_problem_of_one_is_told_though_others_succeed) {
  server.objects["moonfence-incident-i1"] = {
      {"metadata", {{"name", "moonfence-incident-i1"}, {"uid", "theirs"}}}};
  display.lead();
  stands(record("i1"));
  run_for(5s);
  for (int i = 0; i < 20; ++i) {
    stands(record("i2", static_cast<std::size_t>(i % 3)));
    run_for(6s);
    EXPECT_NE(display.problem().find("moonfence-incident-i1"), std::string::npos);
  }
  display.removed(IncidentId("i1"));
  EXPECT_EQ(display.problem(), "");
}

TEST_F(IncidentDisplayTest, open_ones_and_those_that_have_just_ended_go_first) {
  display.lead();
  stands(record("open"));
  run_for(5s);
  for (int i = 0; i < 100; ++i) {
    stands(closed(record("a" + std::to_string(i))));
  }
  run_for(6s);
  stands(closed(record("open")));
  stands(record("new"));
  run_for(1s);
  EXPECT_EQ(server.settled("open"), "True");
  EXPECT_EQ(server.settled("new"), "False");
  EXPECT_LT(server.patched, 100);
}

TEST_F(IncidentDisplayTest, a_text_that_changes_while_calls_take_time_is_written_once_a_minute) {
  server.delay = 1500ms;
  display.lead();
  stands(record("i1"));
  for (int i = 0; i < 600; ++i) {
    engine.open = {status("i1", IncidentStatus::State::Waits, "for " + std::to_string(i) + " s")};
    run_for(1s);
  }
  EXPECT_LE(server.patched, 12);
  EXPECT_GE(server.patched, 6);
}

TEST_F(IncidentDisplayTest, hundreds_of_incidents_are_written_one_at_a_time) {
  display.lead();
  for (int i = 0; i < 300; ++i) {
    stands(record("i" + std::to_string(i)));
  }
  std::size_t most = 0;
  test::run_until(
      loop,
      [this, &most] {
        most = std::max(most, http.open_exchanges());
        return server.patched == 300;
      },
      5min);
  EXPECT_EQ(server.patched, 300);
  EXPECT_LE(most, 1U);
}

}  // namespace
}  // namespace moonfence::fence
