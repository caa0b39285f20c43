// What is done about the pods that policies wait for, between two passes.

#include <algorithm>

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

struct IncidentsPodsTest : IncidentsTest {
  static constexpr const char* kWatch = "watch=1";
  PodWatches watches{loop, caller, random, log};
  int version = 10;

  ~IncidentsPodsTest() override { incidents.reset(); }

  // Waits for an hour unless the pod is Terminating and past its deadline.
  void open(const std::string& body =
                "if not pod.terminating then return fence.wait('not terminating', 3600) end "
                "if pod.deletion_timestamp > cluster.now then "
                "return fence.wait('before its deadline', 3600) end "
                "return fence.delete_pod('past its deadline')") {
    http.on(port::Method::Get, "/api/v1/pods?watch=1", test::FakeAnswer::watch());
    activate({everywhere(policy_of(body, "trigger = { live_kubelet = true },"))});
    IncidentContext around = surroundings();
    around.access.pod_watches = &watches;
    around.access.cluster_facts = [this] {
      policy::ClusterFacts cluster = sample_cluster();
      cluster.now = wall_now();
      return cluster;
    };
    incidents.emplace(around, IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
  }
  // The node falls, and its incident waits.
  void wait() {
    tell(Look::Fell);
    run_for(1s);
  }
  std::size_t frame(const std::string& type, const std::string& name) {
    return push(type, pods.at(name));
  }
  std::size_t push(const std::string& type, const nlohmann::json& pod) {
    const nlohmann::json line = {{"type", type}, {"object", pod}};
    pods_version = pod["metadata"]["resourceVersion"];
    return http.push(kWatch, line.dump() + "\n");
  }
  // A change of the pod, in the cluster and on the watch.
  void change(const std::string& name, const std::string& path, const nlohmann::json& value) {
    nlohmann::json& pod = pods.at(name);
    pod[nlohmann::json::json_pointer(path)] = value;
    pod["metadata"]["resourceVersion"] = std::to_string(++version);
    EXPECT_EQ(frame("MODIFIED", name), 1U);
  }
  // When it is due to be gone, in whole seconds as the API server says it.
  WallTime terminate(const std::string& name, Duration grace) {
    const WallTime deadline = std::chrono::floor<std::chrono::seconds>(wall_now()) + grace;
    change(name, "/metadata/deletionTimestamp", format_rfc3339(deadline));
    return deadline;
  }
  [[nodiscard]] std::size_t passes() const {
    return http.count("GET /api/v1/pods?") - http.count(kWatch) - http.count("compares-versions");
  }
};

TEST_F(IncidentsPodsTest,
       while_a_policy_waits_the_pods_of_the_node_are_watched_from_where_the_list_ended) {
  open();
  add_pod("web-0");
  wait();
  ASSERT_EQ(http.count(kWatch), 1U);
  const auto watch = std::find_if(
      http.requests.begin(), http.requests.end(),
      [](const auto& request) { return request.query.find(kWatch) != std::string::npos; });
  EXPECT_NE(watch->query.find("resourceVersion=9&"), std::string::npos) << watch->query;
  EXPECT_NE(watch->query.find("fieldSelector=spec.nodeName%3Dn1"), std::string::npos);
  EXPECT_EQ(watch->lane, port::Lane::Watches);
  EXPECT_EQ(watches.open, 1U);
  incidents->stop();
  run_for(1s);
  EXPECT_EQ(watches.open, 0U);
}

TEST_F(IncidentsPodsTest, nothing_is_watched_where_nothing_waits) {
  open("return fence.skip('not ours')");
  add_pod("web-0");
  wait();
  EXPECT_EQ(http.count(kWatch), 0U);
}

TEST_F(IncidentsPodsTest,
       a_pod_that_becomes_terminating_is_judged_at_once_and_again_at_its_deadline) {
  open();
  add_pod("web-0");
  wait();
  ASSERT_EQ(passes(), 1U);
  const WallTime deadline = terminate("web-0", 30s);
  run_for(1ms);
  EXPECT_EQ(passes(), 2U);
  EXPECT_EQ(story.told(true).back(), "verdict policy_waits db/web-0");
  run_for(deadline - wall_now() - 1ms);
  EXPECT_EQ(passes(), 2U);
  run_for(2ms);
  EXPECT_EQ(passes(), 3U);
  EXPECT_FALSE(pods.contains("web-0"));
}

TEST_F(IncidentsPodsTest, heartbeats_of_a_pod_and_its_own_deletions_ring_nobody) {
  open(
      "if pod.name == 'web-1' then return fence.delete_pod('go') end return fence.wait('stay', "
      "3600)");
  add_pod("web-0");
  add_pod("web-1");
  wait();
  nlohmann::json gone = pods.at("web-0");
  EXPECT_FALSE(pods.contains("web-1"));
  run_for(30s);  // what was deleted was looked after
  const std::size_t before = passes();
  gone["metadata"]["uid"] = "uid-web-1";
  gone["metadata"]["resourceVersion"] = "11";
  EXPECT_EQ(push("DELETED", gone), 1U);
  change("web-0", "/status/phase", "Failed");
  run_for(30s);
  EXPECT_EQ(passes(), before);
}

TEST_F(IncidentsPodsTest, a_pod_that_flaps_makes_no_pass_more_often_than_every_five_seconds) {
  open();
  add_pod("web-0");
  wait();
  const std::size_t before = passes();
  for (int i = 0; i < 3000; ++i) {
    change("web-0", "/metadata/annotations/at", std::to_string(i));
    run_for(20ms);
  }
  EXPECT_GE(passes() - before, 15U);
  EXPECT_LE(passes() - before, 18U);
}

TEST_F(IncidentsPodsTest, what_failed_is_repeated_in_its_own_time_whoever_rings) {
  open(
      "if pod.name == 'web-1' then return fence.delete_pod('go') end return fence.wait('stay', "
      "3600)");
  add_pod("web-0");
  add_pod("web-1");
  scripts["web-1"] = {broken()};
  wait();
  ASSERT_EQ(passes(), 1U);
  change("web-0", "/metadata/labels/app", "other");
  run_for(3s);
  EXPECT_EQ(passes(), 1U);
  run_for(2s);
  EXPECT_EQ(passes(), 2U);
}

TEST_F(IncidentsPodsTest, without_a_watch_there_are_the_passes_by_time) {
  open("return fence.wait('stay', 10)");
  http.on(port::Method::Get, "/api/v1/pods?watch=1", status(403, "Forbidden"));
  add_pod("web-0");
  wait();
  run_for(35s);
  // The watcher lists as well, with growing pauses.
  EXPECT_GE(http.count("GET /api/v1/nodes/n1"), 4U);
  EXPECT_LE(http.count(kWatch), 8U);
}

TEST_F(IncidentsPodsTest, there_are_no_more_watches_than_are_allowed) {
  open();
  add_pod("web-0");
  watches.open = PodWatches::kMost;
  wait();
  EXPECT_EQ(http.count(kWatch), 0U);
  watches.open = 0;
}

}  // namespace
}  // namespace moonfence::fence
