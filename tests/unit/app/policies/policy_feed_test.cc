#include "app/policies/policy_feed.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "support/policies.h"
#include "unit/kube/wire_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using port::Method;
using test::FakeAnswer;

struct StillWallClock final : port::WallClock {
  WallTime now() override { return *parse_rfc3339("2026-01-02T03:04:05Z"); }
};

json config_map(const std::string& name, const json& data) {
  static int version = 100;
  return {{"kind", "ConfigMap"},
          {"metadata",
           {{"name", name},
            {"namespace", "fence"},
            {"uid", "uid-of-" + name},
            {"resourceVersion", std::to_string(++version)}}},
          {"data", data}};
}

json policies(const std::string& verdict = "fence.skip('x')") {
  return config_map("moonfence-policies",
                    {{"moonfence.yaml",
                      "api: 1\nbindings: [{policy: test, source: test.lua, namespaces: [db]}]\n"},
                     {"test.lua", policy_text("return " + verdict)}});
}

struct PolicyFeedTest : kube::WireTest {
  const std::string maps = "/prefix/api/v1/namespaces/fence/configmaps";
  StillWallClock wall_clock;
  StoppedCpuClock cpu_clock;
  test::FakeRandom random;
  kube::EventRecorder events{loop, caller, wall_clock, random, log, "moonfence-0"};
  std::vector<std::size_t> activated;  // bindings of each set that came into force
  std::vector<policy::ReloadReport> reports;
  std::vector<std::ptrdiff_t> statuses;  // sent before each report
  std::optional<PolicyFeed> feed;

  PolicyFeedTest() {
    http.on(Method::Get, maps + "/moonfence-lastgood", status(404, "NotFound", R"({"name":"x"})"));
    for (const char* name : {"moonfence-status", "moonfence-lastgood"}) {
      http.on(Method::Patch, maps + "/" + name,
              FakeAnswer{.body = config_map(name, json::object()).dump()});
    }
  }

  void serve(const json& items, const std::string& frames = {}) {
    const json list = {
        {"kind", "ConfigMapList"}, {"metadata", {{"resourceVersion", "100"}}}, {"items", items}};
    http.on(Method::Get, maps, FakeAnswer{.body = list.dump()});
    http.on(Method::Get, maps + "?watch=1", FakeAnswer::watch(frames));
  }
  static std::string frame(const std::string& type, const json& object) {
    return json{{"type", type}, {"object", object}}.dump() + "\n";
  }
  void start(Duration duration = 2s) {
    feed.emplace(
        PolicyFeed::Surroundings{loop, caller, random, log, cpu_clock, events}, Namespace("fence"),
        "moonfence-0", policy::ReloadRules{},
        PolicyFeed::Receivers{
            .now = [this] { return wall_clock.now(); },
            .activate = [this](const auto& set) { activated.push_back(set->bindings.size()); },
            .report =
                [this](const auto& report, const auto&) {
                  reports.push_back(report);
                  statuses.push_back(
                      std::count(http.begun.begin(), http.begun.end(), maps + "/moonfence-status"));
                }});
    feed->start();
    test::run_for(loop, duration);
  }
  // Bodies of what was written to a ConfigMap of ours.
  [[nodiscard]] std::vector<json> written(const std::string& name) const {
    std::vector<json> bodies;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == Method::Patch && request.path == maps + "/" + name) {
        bodies.push_back(json::parse(request.body).at("data"));
      }
    }
    return bodies;
  }
};

TEST_F(PolicyFeedTest, what_is_bound_comes_into_force_and_is_told_and_kept) {
  serve(json::array({policies()}));
  start();
  EXPECT_EQ(activated, std::vector<std::size_t>{1});
  EXPECT_EQ(feed->not_ready(), "");
  ASSERT_EQ(written("moonfence-status").size(), 1U);
  const json status =
      json::parse(written("moonfence-status")[0].at("moonfence-0").get<std::string>());
  EXPECT_EQ(status.at("policies").at(0).at("name"), "test");
  EXPECT_EQ(written("moonfence-lastgood").size(), 1U);
  EXPECT_EQ(http.requests.at(0).path, maps + "/moonfence-lastgood") << "before the first look";
}

// The watch was open and said nothing; somebody had written `mode: off`.
TEST_F(PolicyFeedTest, what_the_watch_does_not_tell_is_read_live) {
  serve(json::array({policies()}));
  start();
  ASSERT_EQ(activated, std::vector<std::size_t>{1});
  serve(json::array());
  std::vector<std::string> told;
  const auto alive = std::make_shared<int>(0);
  feed->prove(alive, [&](const Result<void>& outcome) {
    told.push_back(outcome ? "proven, in force: " + std::to_string(activated.back())
                           : outcome.error().text);
  });
  test::run_for(loop, 1s);
  EXPECT_EQ(told, std::vector<std::string>{"proven, in force: 0"}) << "first in force, then told";
  const Moment proven = feed->proven_at();
  test::run_for(loop, 11s);
  EXPECT_GT(feed->proven_at(), proven) << "of its own accord";
  EXPECT_EQ(http.count("watch=1"), 1U);
}

TEST_F(PolicyFeedTest, a_live_read_that_fails_or_is_older_proves_nothing) {
  const json old = policies();
  serve(json::array({policies("fence.wait('x')")}));
  start();
  const Moment proven = feed->proven_at();
  std::vector<std::string> told;
  const auto alive = std::make_shared<int>(0);
  const auto ask = [&] {
    feed->prove(alive, [&](const Result<void>& outcome) {
      told.push_back(outcome ? "proven" : outcome.error().message());
    });
    test::run_for(loop, 1s);
  };
  http.on(Method::Get, maps, status(500, "InternalError"));
  ask();
  serve(json::array({old}));
  ask();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(std::count(told.begin(), told.end(), "proven"), 0);
  EXPECT_EQ(feed->proven_at(), proven);
}

// A store that went back in time gave the version to another text.
TEST_F(PolicyFeedTest, another_text_under_the_same_version_is_taken_up) {
  json now_there = policies();
  serve(json::array({now_there}));
  start();
  ASSERT_EQ(activated, std::vector<std::size_t>{1});
  now_there["data"]["mode"] = "off";
  serve(json::array({now_there}));
  test::run_for(loop, 12s);
  EXPECT_EQ(activated.back(), 0U);
}

TEST_F(PolicyFeedTest, what_we_wrote_is_looked_at_when_the_store_went_back) {
  serve(json::array({policies()}));
  start();
  EXPECT_TRUE(feed->kept());
  const Moment proven = feed->proven_at();
  const auto lists = feed->watch_health().lists;
  feed->begin_anew();
  EXPECT_FALSE(feed->kept());
  test::run_for(loop, 5s);
  EXPECT_TRUE(feed->kept());
  EXPECT_EQ(written("moonfence-status").size(), 2U);
  EXPECT_EQ(written("moonfence-lastgood").size(), 2U);
  EXPECT_GT(feed->watch_health().lists, lists);
  EXPECT_GT(feed->proven_at(), proven);
}

TEST_F(PolicyFeedTest, who_has_gone_is_not_told_and_those_who_ask_at_once_share_a_read) {
  serve(json::array({policies()}));
  start();
  int told = 0;
  const auto alive = std::make_shared<int>(0);
  const auto lists = [this] {
    return http.count("fieldSelector=metadata.name%3Dmoonfence-policies");
  };
  const std::size_t before = lists();
  for (int i = 0; i < 20; ++i) {
    feed->prove(alive, [&](const Result<void>&) { ++told; });
  }
  feed->prove(std::make_shared<int>(0), [&](const Result<void>&) { told += 1000; });
  test::run_for(loop, 1s);
  EXPECT_EQ(told, 20);
  EXPECT_LE(lists(), before + 2);
}

TEST_F(PolicyFeedTest, without_the_config_map_nothing_is_in_force) {
  serve(json::array());
  start();
  EXPECT_EQ(activated, std::vector<std::size_t>{0});
  EXPECT_EQ(feed->not_ready(), "");
  EXPECT_EQ(reports.back().mode, policy::Mode::Off);
}

TEST_F(PolicyFeedTest, it_is_not_ready_while_the_last_good_cannot_be_read) {
  serve(json::array({policies()}));
  http.on(Method::Get, maps + "/moonfence-lastgood", status(403, "Forbidden"));
  start(60s);
  EXPECT_TRUE(activated.empty());
  EXPECT_NE(feed->not_ready(), "");
  EXPECT_EQ(http.count("watch=1"), 0U);
  http.on(Method::Get, maps + "/moonfence-lastgood", status(404, "NotFound", R"({"name":"x"})"));
  test::run_for(loop, 60s);
  EXPECT_EQ(activated, std::vector<std::size_t>{1});
  EXPECT_EQ(feed->not_ready(), "");
}

// It will not read better the next time: an engine that waited for it never acted again.
TEST_F(PolicyFeedTest, a_last_good_that_makes_no_sense_is_done_without) {
  serve(json::array({policies()}));
  http.on(Method::Get, maps + "/moonfence-lastgood", FakeAnswer{.body = R"({"kind":"Pod"})"});
  start();
  EXPECT_EQ(activated, std::vector<std::size_t>{1});
}

// It counted as deleted: everything was off, and what was good was forgotten.
TEST_F(PolicyFeedTest, a_config_map_that_cannot_be_decoded_is_not_a_deleted_one) {
  json broken = policies();
  broken["data"]["test.lua"] = 5;
  serve(json::array({policies()}), frame("MODIFIED", broken));
  start(5s);
  EXPECT_EQ(activated, std::vector<std::size_t>{1});
  EXPECT_EQ(reports.back().mode, policy::Mode::Enforce);
  for (const json& data : written("moonfence-lastgood")) {
    for (const auto& [key, text] : data.items()) {
      EXPECT_FALSE(text.is_null()) << key;
    }
  }
}

TEST_F(PolicyFeedTest, the_end_of_another_config_map_is_none_of_ours) {
  serve(json::array({policies()}), frame("DELETED", config_map("something-else", json::object())));
  start(5s);
  EXPECT_EQ(activated, std::vector<std::size_t>{1});
}

TEST_F(PolicyFeedTest, its_end_puts_everything_off) {
  serve(json::array({policies()}), frame("DELETED", policies()));
  start(5s);
  ASSERT_EQ(activated.size(), 1U) << "the deletion came before the first was taken up";
  EXPECT_EQ(activated.back(), 0U);
}

TEST_F(PolicyFeedTest, an_edit_is_in_force_within_a_second) {
  serve(json::array({policies()}));
  start();
  const Moment edited = loop.now();
  EXPECT_EQ(http.push("watch=1", frame("MODIFIED", policies("fence.wait('y')"))), 1U);
  EXPECT_TRUE(test::run_until(loop, [this] { return activated.size() == 2; }));
  EXPECT_LT(loop.now() - edited, 1s);
}

// The status used to leave first, and an administrator who had read in it that an edit was rejected
// could find a counter of rejected edits that stood still.
TEST_F(PolicyFeedTest, the_metrics_know_before_the_status_says) {
  serve(json::array({policies()}));
  start();
  http.push("watch=1", frame("MODIFIED", policies("fence.wait('y'")));
  EXPECT_TRUE(test::run_until(loop, [this] { return written("moonfence-status").size() == 2; }));
  EXPECT_EQ(statuses, (std::vector<std::ptrdiff_t>{0, 1}));
}

struct DepartedTest : PolicyFeedTest {
  void live(const std::vector<std::string>& pods, const std::string& more = "") {
    json items = json::array();
    for (const std::string& pod : pods) {
      items.push_back({{"metadata", {{"name", pod}}}});
    }
    http.on(Method::Get, "/prefix/api/v1/namespaces/fence/pods",
            FakeAnswer{.body = json{
                           {"kind", "PodList"},
                           {"metadata", {{"resourceVersion", "9"}, {"continue", more}}},
                           {"items",
                            items}}.dump()});
    http.on(Method::Get, maps + "/moonfence-status",
            FakeAnswer{.body = config_map("moonfence-status", {{"moonfence-0", "{}"},
                                                               {"moonfence-1", "{}"},
                                                               {"moonfence-9", "{}"}})
                                   .dump()});
  }
  // Keys that are taken out by the last write.
  [[nodiscard]] std::vector<std::string> taken() const {
    std::vector<std::string> keys;
    const json data = written("moonfence-status").back();
    for (const auto& [key, text] : data.items()) {
      if (text.is_null()) {
        keys.push_back(key);
      }
    }
    return keys;
  }
};

TEST_F(DepartedTest, a_replica_that_is_no_pod_any_more_loses_its_place_in_the_status) {
  serve(json::array({policies()}));
  live({"moonfence-0", "moonfence-1"});
  start(70s);
  EXPECT_EQ(taken(), std::vector<std::string>{"moonfence-9"});
  live({"moonfence-0"});
  test::run_for(loop, 10min);
  EXPECT_THAT(taken(), testing::Contains("moonfence-1"));
}

TEST_F(DepartedTest, who_is_no_pod_itself_or_sees_a_part_only_takes_nothing_away) {
  serve(json::array({policies()}));
  live({"moonfence-1"});
  start(70s);
  EXPECT_TRUE(taken().empty());
  live({"moonfence-0"}, "more");
  test::run_for(loop, 10min);
  EXPECT_TRUE(taken().empty());
}

}  // namespace
}  // namespace moonfence::app
