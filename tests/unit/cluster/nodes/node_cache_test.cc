#include "cluster/nodes/node_cache.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/fake_log.h"
#include "support/fake_poller.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using Told = std::vector<std::string>;

struct NodeJson {
  std::string name = "n1";
  std::string ready = "True";  // "" leaves the condition out
  std::string uid = "u1";
  std::string since = "2026-01-01T00:00:00Z";
  std::string heartbeat = "2026-01-01T00:00:00Z";
  std::string taint;
  std::string mark = {};  // annotation moonfence.io/fenced
  std::string boot = {};  // "": its kubelet has never said it
  std::string address = {};
  std::string created = "2025-12-31T00:00:00Z";

  [[nodiscard]] nlohmann::json json() const {
    nlohmann::json node = {
        {"metadata",
         {{"name", name}, {"uid", uid}, {"creationTimestamp", created}, {"resourceVersion", "1"}}},
        {"status", {{"conditions", nlohmann::json::array()}}}};
    if (!ready.empty()) {
      node["status"]["conditions"].push_back({{"type", "Ready"},
                                              {"status", ready},
                                              {"lastTransitionTime", since},
                                              {"lastHeartbeatTime", heartbeat}});
    }
    if (!address.empty()) {
      node["status"]["addresses"] = {{{"type", "InternalIP"}, {"address", address}}};
    }
    if (!boot.empty()) {
      node["status"]["nodeInfo"] = {{"bootID", boot}};
    }
    if (!mark.empty()) {
      node["metadata"]["annotations"] = {{"moonfence.io/fenced", mark}};
    }
    if (!taint.empty()) {
      node["spec"]["taints"] = {{{"key", taint}, {"effect", "NoSchedule"}}};
    }
    return node;
  }
};

struct Listener final : NodeListener {
  void look_at(const NodeView& node, Look why) override {
    const char* word = why == Look::Fell              ? "fell"
                       : why == Look::Swept           ? "swept"
                       : why == Look::Expired         ? "expired"
                       : why == Look::PoliciesChanged ? "policies_changed"
                       : why == Look::Asked           ? "asked"
                                                      : "changed";
    told.push_back(node.name.text() + " " + word + " " + std::string(to_string(node.readiness)));
  }
  void census_changed(const Census& counted) override {
    census.push_back(counted.all());
    told_at_census = told.size();
  }
  void saw(const NodeView& node) override {
    saw_all.push_back(node.name.text() + " " + std::string(to_string(node.readiness)) +
                      (node.kubelet.addresses.empty() ? "" : " " + node.kubelet.addresses[0]));
  }
  Told told;
  Told saw_all;
  std::vector<Census::Count> census;
  std::size_t told_at_census = 0;
};

struct NodeCacheTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeLog log;
  Listener listener;
  std::unique_ptr<NodeCache> cache = make(1h);

  std::unique_ptr<NodeCache> make(Duration expiry) {
    return std::make_unique<NodeCache>(loop, log, expiry, listener);
  }

  void list(const std::vector<NodeJson>& nodes) {
    cache->on_init();
    for (const NodeJson& node : nodes) {
      cache->on_init_apply(node.json());
    }
    cache->on_init_done();
  }

  Told told() { return std::exchange(listener.told, {}); }
};

TEST_F(NodeCacheTest, the_census_follows_every_change_and_is_told_before_the_node_is) {
  using Count = Census::Count;
  list({{.name = "n1"}, {.name = "n2", .ready = "Unknown"}});
  EXPECT_EQ(listener.census, (std::vector<Count>{{2, 1}}));
  cache->on_apply(NodeJson{.name = "n1", .heartbeat = "2026-01-01T00:10:00Z"}.json());
  EXPECT_EQ(listener.census.size(), 1U);  // nothing that counts
  cache->on_apply(NodeJson{.name = "n1", .ready = "False"}.json());
  EXPECT_EQ(listener.census.back(), (Count{2, 2}));
  EXPECT_EQ(listener.told_at_census, 1U);  // of n2 that was swept; not yet of n1
  cache->on_apply(NodeJson{.name = "n3"}.json());
  EXPECT_EQ(listener.census.back(), (Count{3, 2}));
  cache->on_delete(NodeJson{.name = "n2"}.json());
  EXPECT_EQ(listener.census.back(), (Count{2, 1}));
  cache->on_apply(NodeJson{.name = "n3", .taint = "node-role.kubernetes.io/control-plane"}.json());
  EXPECT_EQ(listener.census.back(), (Count{1, 1}));
  list({{.name = "n3"}});  // n1 is gone, n3 is a worker again
  EXPECT_EQ(listener.census.back(), (Count{1, 0}));
  EXPECT_EQ(cache->census().all(), (Count{1, 0}));
}

TEST_F(NodeCacheTest, every_node_that_is_new_changed_or_gone_is_shown) {
  list({{.name = "n1", .address = "10.0.0.1"}, {.name = "n2", .ready = "Unknown"}});
  cache->on_apply(
      NodeJson{.name = "n1", .heartbeat = "2026-01-01T00:10:00Z", .address = "10.0.0.1"}.json());
  cache->on_apply(NodeJson{.name = "n3"}.json());
  cache->on_apply(NodeJson{.name = "n1", .address = "10.0.0.9"}.json());
  cache->on_apply(NodeJson{.name = "n1", .uid = "u2", .address = "10.0.0.9"}.json());
  cache->on_delete(NodeJson{.name = "n2"}.json());
  list({{.name = "n3"}});
  EXPECT_EQ(listener.saw_all,
            (Told{"n1 true 10.0.0.1", "n2 unknown", "n3 true", "n1 true 10.0.0.9",
                  "n1 deleted 10.0.0.9", "n1 true 10.0.0.9", "n2 deleted", "n1 deleted 10.0.0.9"}));
}

TEST_F(NodeCacheTest, nodes_that_never_joined_are_not_counted_and_one_that_fell_is) {
  using Count = Census::Count;
  list({{.name = "n1"}, {.name = "n2"}});
  for (const char* name : {"m1", "m2", "m3"}) {
    cache->on_apply(
        NodeJson{.name = name, .ready = "False", .created = "2026-01-01T00:00:00Z"}.json());
  }
  EXPECT_EQ(listener.census.back(), (Count{2, 0}));
  cache->on_apply(NodeJson{.name = "n1", .ready = "Unknown"}.json());
  EXPECT_EQ(listener.census.back(), (Count{2, 1}));
  cache->on_apply(NodeJson{.name = "m1"}.json());
  EXPECT_EQ(listener.census.back(), (Count{3, 1}));
}

// After a restart of the engine it looked like an object without a machine, and the brake let go.
TEST_F(NodeCacheTest, whose_ready_condition_was_taken_away_had_joined) {
  list({{.name = "n1"},
        {.name = "n2", .ready = "", .boot = "boot-2"},
        {.name = "stub", .ready = ""}});
  EXPECT_EQ(listener.census.back(), (Census::Count{2, 1}));
}

TEST_F(NodeCacheTest, a_fallen_node_that_carries_nothing_is_excused_until_it_is_up_again) {
  using Count = Census::Count;
  list({{.name = "n1"}, {.name = "n2"}});
  cache->on_apply(NodeJson{.name = "n1", .ready = "Unknown"}.json());
  cache->excuse(NodeName("n1"));
  EXPECT_EQ(listener.census.back(), (Count{1, 0}));
  cache->on_apply(NodeJson{.name = "n1", .ready = "False"}.json());
  EXPECT_EQ(listener.census.back(), (Count{1, 0}));
  cache->on_apply(NodeJson{.name = "n1"}.json());
  EXPECT_EQ(listener.census.back(), (Count{2, 0}));
  cache->excuse(NodeName("n1"));  // it is up: there is nothing to excuse
  EXPECT_EQ(listener.census.back(), (Count{2, 0}));
}

TEST_F(NodeCacheTest, a_node_made_anew_does_not_wait_to_be_ready_once) {
  list({{.name = "n1"}});
  cache->on_delete(NodeJson{.name = "n1"}.json());
  (void)told();
  cache->on_apply(NodeJson{.name = "n1", .ready = "False", .uid = "u2"}.json());
  EXPECT_EQ(told(), Told{"n1 fell false"});
  EXPECT_EQ(listener.census.back(), (Census::Count{1, 1}));
}

TEST_F(NodeCacheTest, a_replacement_whose_deletion_was_not_heard_of_is_told_as_two_things) {
  list({{.name = "n1"}});
  (void)told();
  cache->on_apply(NodeJson{.name = "n1", .ready = "False", .uid = "u2"}.json());
  EXPECT_EQ(told(), (Told{"n1 fell deleted", "n1 fell false"}));
}

TEST_F(NodeCacheTest, a_node_with_our_mark_is_told_of_although_it_is_ready) {
  list({{.name = "n1"}, {.name = "n2", .taint = "moonfence.io/fenced", .mark = "{}"}});
  EXPECT_EQ(told(), Told{"n2 changed true"});
  EXPECT_TRUE(cache->find(NodeName("n2"))->fenced);
  EXPECT_EQ(cache->find(NodeName("n2"))->fence_mark, "{}");
  cache->on_apply(NodeJson{.name = "n2", .mark = "{}"}.json());
  EXPECT_EQ(told(), Told{"n2 changed true"});
  cache->on_apply(NodeJson{.name = "n2"}.json());
  EXPECT_EQ(told(), Told{"n2 changed true"});
}

TEST_F(NodeCacheTest, a_node_that_stops_being_ready_fell_once) {  // rows E-01, E-02
  list({{.ready = "True"}});
  EXPECT_EQ(told(), Told{});
  cache->on_apply(NodeJson{.ready = "Unknown", .since = "2026-01-01T00:10:00Z"}.json());
  EXPECT_EQ(told(), Told{"n1 fell unknown"});
  cache->on_apply(NodeJson{.ready = "Unknown", .since = "2026-01-01T00:10:00Z"}.json());
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, heartbeats_are_no_change) {  // row E-03
  list({{.ready = "False"}});
  told();
  for (int i = 0; i < 5; ++i) {
    cache->on_apply(
        NodeJson{.ready = "False", .heartbeat = "2026-01-01T00:0" + std::to_string(i) + ":00Z"}
            .json());
  }
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, a_down_node_is_looked_at_again_when_its_entry_expires) {  // row E-04
  list({{.ready = "True"}});
  cache->on_apply(NodeJson{.ready = "False"}.json());
  told();
  test::run_for(loop, 3599s);
  EXPECT_EQ(told(), Told{});
  test::run_for(loop, 2s);
  EXPECT_EQ(told(), Told{"n1 expired false"});
  test::run_for(loop, 1h);
  EXPECT_EQ(told(), Told{"n1 expired false"});
}

TEST_F(NodeCacheTest, a_node_that_came_back_does_not_expire) {
  list({{.ready = "False"}});
  cache->on_apply(NodeJson{.ready = "True"}.json());
  told();
  test::run_for(loop, 3h);
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, with_expiry_zero_nothing_expires) {  // row E-05
  cache = make(Duration::zero());
  list({{.ready = "False"}});
  told();
  test::run_for(loop, 100h);
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, falling_again_before_the_expiry_is_told_at_once) {  // row E-06
  list({{.ready = "True"}});
  cache->on_apply(NodeJson{.ready = "Unknown", .since = "2026-01-01T00:01:00Z"}.json());
  cache->on_apply(NodeJson{.ready = "True", .since = "2026-01-01T00:02:00Z"}.json());
  cache->on_apply(NodeJson{.ready = "Unknown", .since = "2026-01-01T00:03:00Z"}.json());
  EXPECT_EQ(told(), (Told{"n1 fell unknown", "n1 changed true", "n1 fell unknown"}));
}

TEST_F(NodeCacheTest, nodes_down_at_start_are_swept_after_the_whole_list_is_known) {  // row E-16
  list({{.name = "n1", .ready = "Unknown"}, {.name = "n2"}, {.name = "n3", .ready = ""}});
  EXPECT_EQ(told(), (Told{"n1 swept unknown", "n3 swept missing"}));
  EXPECT_EQ(cache->counts().total, 3);
  EXPECT_EQ(cache->counts().ready, 1);
}

TEST_F(NodeCacheTest, nodes_that_are_down_can_be_told_of_again) {
  list({{.name = "n1", .ready = "Unknown"}, {.name = "n2"}, {.name = "n3", .ready = "False"}});
  told();
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), (Told{"n1 policies_changed unknown", "n3 policies_changed false"}));
  cache->on_apply(NodeJson{.name = "n1", .ready = "True"}.json());
  told();
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), Told{"n3 policies_changed false"});
}

TEST_F(NodeCacheTest, a_node_that_is_still_joining_is_not_told_of_again) {  // row NB-11
  list({{.name = "n1"}});
  const std::string made = "2026-01-01T00:00:00Z";  // and has not been Ready since
  cache->on_apply(NodeJson{.name = "n2", .ready = "False", .created = made}.json());
  cache->on_apply(NodeJson{.name = "n3", .ready = "False", .created = made}.json());
  told();
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), Told{});
  cache->on_apply(NodeJson{.name = "n2", .ready = "True"}.json());
  cache->on_apply(NodeJson{.name = "n2", .ready = "False"}.json());
  told();
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), Told{"n2 policies_changed false"});
  test::run_for(loop, 1h + 1s);  // n3 has expired
  told();
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), (Told{"n2 policies_changed false", "n3 policies_changed false"}));
}

TEST_F(NodeCacheTest, one_node_can_be_told_of_again_if_it_is_down_and_was_ever_ready) {
  list({{.name = "n1", .ready = "Unknown"}, {.name = "n2"}});
  cache->on_apply(
      NodeJson{.name = "n3", .ready = "False", .created = "2026-01-01T00:00:00Z"}.json());
  told();
  EXPECT_TRUE(cache->look_again_at(NodeName("n1"), Look::Asked));
  EXPECT_EQ(told(), Told{"n1 asked unknown"});
  for (const char* name : {"n2", "n3", "nowhere"}) {
    EXPECT_FALSE(cache->look_again_at(NodeName(name), Look::Asked)) << name;
  }
  EXPECT_EQ(told(), Told{});
}

// Its watch was silent meanwhile. It was taken for one that is still joining, and nobody looked at
// it until its entry expired.
TEST_F(NodeCacheTest, a_node_that_was_made_joined_and_fell_unseen_has_fallen) {
  list({{.name = "n1"}});
  list({{.name = "n1"}, {.name = "n2", .ready = "Unknown", .since = "2026-01-01T00:05:00Z"}});
  EXPECT_EQ(told(), Told{"n2 fell unknown"});
  EXPECT_EQ(cache->find(NodeName("n2"))->standing.group, Standing::Group::Worker);
}

TEST_F(NodeCacheTest, a_relist_finds_what_fell_in_the_gap_and_is_no_burst_of_deletions) {  // E-19
  list({{.name = "n1"}, {.name = "n2"}});
  list({{.name = "n1", .ready = "Unknown"}, {.name = "n2"}});
  EXPECT_EQ(told(), Told{"n1 fell unknown"});
}

TEST_F(NodeCacheTest, falling_twice_with_a_gap_in_between_is_seen_by_the_transition_time) {
  list({{.ready = "Unknown", .since = "2026-01-01T00:01:00Z"}});
  told();
  list({{.ready = "Unknown", .since = "2026-01-01T00:09:00Z"}});
  EXPECT_EQ(told(), Told{"n1 fell unknown"});
  list({{.ready = "Unknown", .since = "2026-01-01T00:03:00Z"}});  // a clock went back in between
  EXPECT_EQ(told(), Told{"n1 fell unknown"});
}

TEST_F(NodeCacheTest, a_list_that_breaks_off_changes_nothing) {
  list({{.name = "n1"}, {.name = "n2"}});
  cache->on_init();
  cache->on_init_apply(NodeJson{.name = "n1"}.json());
  EXPECT_NE(cache->find(NodeName("n2")), nullptr);
  list({{.name = "n1"}, {.name = "n2"}});
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, a_node_missing_from_a_relist_is_gone) {
  list({{.name = "n1"}, {.name = "n2"}});
  list({{.name = "n2"}});
  EXPECT_EQ(told(), Told{"n1 fell deleted"});
  EXPECT_EQ(cache->find(NodeName("n1")), nullptr);
}

// Row LH-22: who acts on deleted nodes may come into force, or begin to lead, only now.
TEST_F(NodeCacheTest, a_deleted_node_is_told_of_again_for_ten_minutes) {
  list({{.name = "n1"}, {.name = "n2", .ready = "False"}});
  (void)told();
  cache->on_delete(NodeJson{.name = "n1"}.json());
  cache->on_delete(NodeJson{.name = "n2", .ready = "False"}.json());
  EXPECT_EQ(told(), (Told{"n1 fell deleted", "n2 changed deleted"}));
  test::run_for(loop, 9min);
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), (Told{"n1 policies_changed deleted", "n2 policies_changed deleted"}));
  test::run_for(loop, 2min);
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, a_node_that_takes_the_name_of_a_deleted_one_is_news) {
  list({{.name = "n1"}});
  cache->on_delete(NodeJson{.name = "n1"}.json());
  (void)told();
  cache->on_apply(NodeJson{.name = "n1", .ready = "False", .uid = "u2"}.json());
  EXPECT_EQ(told(), Told{"n1 fell false"});
  cache->look_again(Look::PoliciesChanged);
  EXPECT_EQ(told(), Told{"n1 policies_changed false"}) << "it does not join, it comes again";
}

TEST_F(NodeCacheTest, a_node_created_not_ready_waits_until_it_was_ready_or_expires) {  // row NB-11
  list({});
  cache->on_apply(NodeJson{.ready = "False", .created = "2026-01-01T00:00:00Z"}.json());
  EXPECT_EQ(told(), Told{});
  test::run_for(loop, 1h + 1s);
  EXPECT_EQ(told(), Told{"n1 expired false"});
}

TEST_F(NodeCacheTest, a_taint_is_news_for_an_open_incident) {
  list({{.ready = "True"}});
  cache->on_apply(NodeJson{.ready = "Unknown"}.json());
  cache->on_apply(NodeJson{.ready = "Unknown", .taint = "node.kubernetes.io/unreachable"}.json());
  EXPECT_EQ(told(), (Told{"n1 fell unknown", "n1 changed unknown"}));
  EXPECT_TRUE(cache->find(NodeName("n1"))->keeps_replacements_off);
}

TEST_F(NodeCacheTest, a_cordon_or_a_taint_is_a_change_and_never_a_fall) {
  const auto cordoned = [](const NodeJson& node) {
    nlohmann::json object = node.json();
    object["spec"]["unschedulable"] = true;
    return object;
  };
  const std::string key = "node.kubernetes.io/unreachable";
  for (const char* ready : {"True", "Unknown"}) {
    cache = make(1h);
    list({{.ready = ready}});
    told();
    cache->on_apply(cordoned({.ready = ready}));
    cache->on_apply(cordoned({.ready = ready, .taint = key}));
    cache->on_apply(NodeJson{.ready = ready, .taint = key}.json());
    cache->on_apply(NodeJson{.ready = ready}.json());
    for (const std::string& line : told()) {
      EXPECT_TRUE(line.starts_with("n1 changed ")) << line;
    }
  }
}

TEST_F(NodeCacheTest, a_cordon_does_not_put_off_the_expiry) {
  list({{.ready = "Unknown"}});
  told();
  test::run_for(loop, 30min);
  cache->on_apply(NodeJson{.ready = "Unknown", .taint = "node.kubernetes.io/unreachable"}.json());
  EXPECT_EQ(told(), Told{"n1 changed unknown"});
  test::run_for(loop, 30min + 1s);
  EXPECT_EQ(told(), Told{"n1 expired unknown"});
}

TEST_F(NodeCacheTest, a_node_that_cannot_be_decoded_keeps_its_old_belief) {
  list({{.name = "n1"}});
  nlohmann::json broken = NodeJson{.name = "n1"}.json();
  broken["metadata"]["uid"] = 7;
  cache->on_init();
  cache->on_init_apply(broken);
  cache->on_init_done();
  EXPECT_EQ(told(), Told{});
  ASSERT_NE(cache->find(NodeName("n1")), nullptr);
  EXPECT_EQ(cache->find(NodeName("n1"))->readiness, Readiness::True);
  cache->on_apply(broken);
  EXPECT_EQ(told(), Told{});
}

TEST_F(NodeCacheTest, cordoned_nodes_are_ready_but_not_schedulable) {
  nlohmann::json cordoned = NodeJson{.name = "n2"}.json();
  cordoned["spec"]["unschedulable"] = true;
  list({{.name = "n1"}});
  cache->on_apply(cordoned);
  EXPECT_EQ(cache->counts().ready, 2);
  EXPECT_EQ(cache->counts().schedulable, 1);
}

}  // namespace
}  // namespace moonfence::cluster
