#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kUnreachableTaint = "node.kubernetes.io/unreachable";
constexpr std::string_view kNotReadyTaint = "node.kubernetes.io/not-ready";

struct NodeLifecycleTest : ClusterTest {
  NodeLifecycleTest() {
    add(WorkloadKind::Deployment, "web").replicas = 3;
    plan.workloads.back().toleration = 30s;
    add(WorkloadKind::DaemonSet, "agent");
    start();
  }
  [[nodiscard]] Object web_on(const std::string& name) const {
    for (const Object& candidate : pods_of("web")) {
      if (node_of(*candidate) == name) {
        return candidate;
      }
    }
    return nullptr;
  }
  // Seconds until it holds; -1: never.
  double seconds_until(const std::function<bool()>& done) {
    const Moment begin = loop.now();
    return run_until(done) ? std::chrono::duration<double>(loop.now() - begin).count() : -1;
  }
};

TEST_F(NodeLifecycleTest, a_silent_node_is_unknown_after_the_grace_period) {
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  const double seconds = seconds_until([this] { return ready("n1") == "Unknown"; });
  // Its last Lease is up to 10 s old, and the monitor looks every 5 s.
  EXPECT_GE(seconds, 29);
  EXPECT_LE(seconds, 46);
  EXPECT_EQ(condition_status(*node("n1"), "MemoryPressure"), "Unknown");
  EXPECT_EQ(ready("n2"), "True");
}

TEST_F(NodeLifecycleTest,
       the_schedule_taint_follows_in_milliseconds_and_the_evicting_one_a_period_later) {
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  seconds_until([this] { return ready("n1") == "Unknown"; });
  EXPECT_FALSE(has_taint(*node("n1"), kUnreachableTaint, "NoSchedule"));
  const double schedule =
      seconds_until([this] { return has_taint(*node("n1"), kUnreachableTaint, "NoSchedule"); });
  EXPECT_LE(schedule, 0.05);
  EXPECT_FALSE(has_taint(*node("n1"), kUnreachableTaint, "NoExecute"));
  const double execute =
      seconds_until([this] { return has_taint(*node("n1"), kUnreachableTaint, "NoExecute"); });
  EXPECT_NEAR(execute, 5, 0.2);
}

TEST_F(NodeLifecycleTest, pods_of_a_silent_node_are_not_ready_at_once) {
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  seconds_until([this] { return ready("n1") == "Unknown"; });
  EXPECT_EQ(condition_status(*web_on("n1"), "Ready"), "False");
  EXPECT_EQ(phase_of(*web_on("n1")), "Running");
}

TEST_F(NodeLifecycleTest, pods_are_evicted_when_their_toleration_ends_and_stay_terminating) {
  lose("n1");
  const Object victim = web_on("n1");
  const double seconds = seconds_until([&] { return is_terminating(*pod(name_of(*victim))); });
  EXPECT_NEAR(seconds, 35, 1);
  run_for(10min);
  ASSERT_NE(pod(name_of(*victim)), nullptr);
  EXPECT_TRUE(is_terminating(*pod(name_of(*victim))));
}

TEST_F(NodeLifecycleTest, daemons_are_never_evicted) {
  lose("n1");
  run_for(15min);
  for (const Object& daemon : pods_of("agent")) {
    EXPECT_FALSE(is_terminating(*daemon));
  }
}

TEST_F(NodeLifecycleTest, a_node_that_comes_back_loses_its_taints_and_keeps_its_pods) {
  ASSERT_TRUE(perform(Verb::PartitionNode, "n1"));
  ASSERT_TRUE(run_until([this] { return has_taint(*node("n1"), kUnreachableTaint, "NoExecute"); }));
  ASSERT_TRUE(perform(Verb::Heal, "n1"));
  EXPECT_LE(seconds_until([this] { return ready("n1") == "True"; }), 2);
  EXPECT_LE(seconds_until([this] {
              return list_field(*node("n1"), {"spec", "taints"}).empty();
            }),
            6);
  run_for(2min);
  ASSERT_NE(web_on("n1"), nullptr);
  EXPECT_TRUE(serves(*web_on("n1")));
}

TEST_F(NodeLifecycleTest, a_kubelet_in_trouble_says_so_at_once) {
  ASSERT_TRUE(perform(Verb::NotReady, "n1"));
  EXPECT_LE(seconds_until([this] { return ready("n1") == "False"; }), 1);
  EXPECT_LE(seconds_until([this] { return has_taint(*node("n1"), kNotReadyTaint, "NoSchedule"); }),
            0.05);
  run_for(3min);
  EXPECT_EQ(ready("n1"), "False");
  ASSERT_TRUE(perform(Verb::Heal, "n1"));
  EXPECT_LE(seconds_until([this] { return ready("n1") == "True"; }), 2);
}

TEST_F(NodeLifecycleTest, one_in_trouble_that_falls_silent_changes_its_taint) {
  ASSERT_TRUE(perform(Verb::NotReady, "n1"));
  ASSERT_TRUE(run_until([this] { return has_taint(*node("n1"), kNotReadyTaint, "NoExecute"); }));
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  ASSERT_TRUE(run_until([this] { return has_taint(*node("n1"), kUnreachableTaint, "NoExecute"); }));
  EXPECT_FALSE(has_taint(*node("n1"), kNotReadyTaint, "NoExecute"));
}

TEST_F(NodeLifecycleTest, a_missing_ready_condition_stays_away_while_the_lease_lives) {
  ASSERT_TRUE(perform(Verb::RemoveReady, "n1"));
  EXPECT_EQ(ready("n1"), "");
  run_for(5min);
  EXPECT_EQ(ready("n1"), "");
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  ASSERT_TRUE(run_until([this] { return ready("n1") == "Unknown"; }, 2min));
}

TEST_F(NodeLifecycleTest, nodes_of_a_zone_are_evicted_from_one_every_ten_seconds) {
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  ASSERT_TRUE(perform(Verb::PowerOff, "n2"));
  const auto tainted = [this](const std::string& name) {
    return has_taint(*node(name), kUnreachableTaint, "NoExecute");
  };
  ASSERT_TRUE(run_until([&] { return tainted("n1") || tainted("n2"); }));
  const Moment first = loop.now();
  ASSERT_TRUE(run_until([&] { return tainted("n1") && tainted("n2"); }));
  EXPECT_GE(loop.now() - first, 10s);
}

TEST_F(NodeLifecycleTest, pods_of_a_deleted_node_are_collected_within_a_minute) {
  const Object victim = web_on("n1");
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  ASSERT_TRUE(perform(Verb::DeleteNode, "n1"));
  const double seconds = seconds_until([&] { return pod(name_of(*victim)) == nullptr; });
  EXPECT_GE(seconds, 40);
  EXPECT_LE(seconds, 61);
}

TEST_F(NodeLifecycleTest, a_recreated_node_has_another_uid_and_is_ready) {
  const std::string uid = uid_of(*node("n1"));
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  run_for(1min);
  ASSERT_TRUE(perform(Verb::RecreateNode, "n1"));
  ASSERT_TRUE(run_until([&] { return node("n1") != nullptr && ready("n1") == "True"; }, 5s));
  EXPECT_NE(uid_of(*node("n1")), uid);
  ASSERT_TRUE(run_until([&] { return list_field(*node("n1"), {"spec", "taints"}).empty(); }, 10s));
  run_for(2min);
  EXPECT_EQ(ready("n1"), "True");
}

}  // namespace
}  // namespace moonfence::sim
