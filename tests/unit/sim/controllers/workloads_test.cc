#include <algorithm>

#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

struct WorkloadsTest : ClusterTest {
  // Pods of `workload` that are not being deleted, on `name`.
  [[nodiscard]] std::size_t bound_to(const std::string& workload, const std::string& name) const {
    std::size_t count = 0;
    for (const Object& candidate : pods_of(workload)) {
      count += node_of(*candidate) == name && !is_terminating(*candidate) ? 1U : 0U;
    }
    return count;
  }
};

TEST_F(WorkloadsTest, a_stateful_pod_on_a_dead_node_stays_terminating) {
  add(WorkloadKind::StatefulSet, "core");
  start();
  const Object core = pod("core-0");
  lose(node_of(*core));
  // Five minutes of toleration, and then nobody confirms that it has stopped.
  run_for(6min);
  EXPECT_TRUE(is_terminating(*pod("core-0")));
  run_for(1h);
  EXPECT_EQ(uid_of(*pod("core-0")), uid_of(*core));
}

TEST_F(WorkloadsTest, a_deployment_has_its_replacement_when_the_toleration_ends) {
  add(WorkloadKind::Deployment, "web").toleration = 60s;
  start();
  const Object web = pods_of("web").at(0);
  lose(node_of(*web));
  const Moment lost = loop.now();
  ASSERT_TRUE(run_until([this] { return serving("web") == 1; }));
  EXPECT_NEAR(std::chrono::duration<double>(loop.now() - lost).count(), 66, 1);
  EXPECT_TRUE(is_terminating(*pod(name_of(*web))));
}

TEST_F(WorkloadsTest, a_forced_deletion_brings_the_stateful_pod_back_elsewhere) {
  add(WorkloadKind::StatefulSet, "core");
  start();
  const Object core = pod("core-0");
  lose(node_of(*core));
  force_delete(*core);
  ASSERT_TRUE(run_until([this] { return pod("core-0") != nullptr && serves(*pod("core-0")); }, 5s));
  EXPECT_NE(node_of(*pod("core-0")), node_of(*core));
  EXPECT_NE(uid_of(*pod("core-0")), uid_of(*core));
}

TEST_F(WorkloadsTest, a_pod_deleted_before_the_taint_may_return_to_the_dead_node) {
  plan.nodes.resize(1);
  add(WorkloadKind::StatefulSet, "core");
  start();
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  run_for(20s);
  force_delete(*pod("core-0"));
  ASSERT_TRUE(run_until(
      [this] { return pod("core-0") != nullptr && !node_of(*pod("core-0")).empty(); }, 5s));
  EXPECT_EQ(node_of(*pod("core-0")), "n1");
}

TEST_F(WorkloadsTest, an_ordered_set_makes_one_pod_after_the_other) {
  plan.timings.container_start = 2s;
  add(WorkloadKind::StatefulSet, "core").replicas = 1;
  start();
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/core", {{"replicas", "3"}}));
  ASSERT_TRUE(run_until([this] { return pod("core-1") != nullptr; }, 1s));
  run_for(1s);
  EXPECT_EQ(pod("core-2"), nullptr);
  ASSERT_TRUE(run_until([this] { return serving("core") == 3; }, 10s));
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/core", {{"replicas", "1"}}));
  ASSERT_TRUE(run_until([this] { return pods_of("core").size() == 1; }, 10s));
  EXPECT_NE(pod("core-0"), nullptr);
}

TEST_F(WorkloadsTest, a_deployment_is_scaled_both_ways) {
  add(WorkloadKind::Deployment, "web").replicas = 2;
  start();
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/web", {{"replicas", "5"}}));
  ASSERT_TRUE(run_until([this] { return serving("web") == 5; }, 10s));
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/web", {{"replicas", "1"}}));
  ASSERT_TRUE(run_until([this] { return pods_of("web").size() == 1; }, 10s));
  run_for(1min);
  EXPECT_EQ(pods_of("web").size(), 1U);
}

TEST_F(WorkloadsTest, pods_spread_over_the_nodes) {
  add(WorkloadKind::Deployment, "web").replicas = 1;
  start();
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/web", {{"replicas", "6"}}));
  ASSERT_TRUE(run_until([this] { return serving("web") == 6; }, 10s));
  for (const std::string name : {"n1", "n2", "n3"}) {
    EXPECT_EQ(bound_to("web", name), 2U);
  }
}

TEST_F(WorkloadsTest, a_full_cluster_leaves_a_pod_pending_until_there_is_room) {
  for (NodePlan& node_plan : plan.nodes) {
    node_plan.capacity = 1;
  }
  add(WorkloadKind::Deployment, "web").replicas = 3;
  add(WorkloadKind::StatefulSet, "core").replicas = 1;
  start();
  EXPECT_EQ(serving("core"), 0U);
  run_for(30s);
  EXPECT_EQ(condition_status(*pod("core-0"), "PodScheduled"), "False");
  ASSERT_TRUE(perform(Verb::Scale, "noobaa/web", {{"replicas", "2"}}));
  ASSERT_TRUE(run_until([this] { return serving("core") == 1; }, 10s));
}

TEST_F(WorkloadsTest, a_pinned_pod_waits_for_its_node) {
  add(WorkloadKind::StatefulSet, "core").node = "n2";
  start();
  ASSERT_TRUE(serves("core-0", "n2"));
  lose("n2");
  force_delete(*pod("core-0"));
  run_for(1min);
  EXPECT_TRUE(node_of(*pod("core-0")).empty());
  ASSERT_TRUE(perform(Verb::Heal, "n2"));
  ASSERT_TRUE(run_until([this] { return serves("core-0", "n2"); }, 30s));
}

TEST_F(WorkloadsTest, a_finalizer_keeps_the_object_and_so_the_name) {
  add(WorkloadKind::StatefulSet, "core").finalizers = {"example.com/hold"};
  start();
  const Object core = pod("core-0");
  lose(node_of(*core));
  force_delete(*core);
  run_for(1min);
  EXPECT_EQ(uid_of(*pod("core-0")), uid_of(*core));
  ASSERT_TRUE(perform(Verb::RemoveFinalizer, "noobaa/core-0", {{"finalizer", "example.com/hold"}}));
  ASSERT_TRUE(run_until([this] { return pod("core-0") != nullptr && serves(*pod("core-0")); }, 5s));
}

TEST_F(WorkloadsTest, daemons_return_and_reach_new_nodes) {
  add(WorkloadKind::DaemonSet, "agent");
  start();
  force_delete(*pods_of("agent").at(0));
  ASSERT_TRUE(run_until([this] { return serving("agent") == 3; }, 5s));
  ASSERT_TRUE(perform(Verb::DeleteNode, "n3"));
  run_for(2min);
  EXPECT_EQ(pods_of("agent").size(), 2U);
  ASSERT_TRUE(perform(Verb::Heal, "n3"));
  ASSERT_TRUE(run_until([this] { return serving("agent") == 3; }, 30s));
}

TEST_F(WorkloadsTest, a_pod_replaced_from_outside_has_another_uid) {
  add(WorkloadKind::Deployment, "web").replicas = 1;
  start();
  const std::string uid = uid_of(*pods_of("web").at(0));
  ASSERT_TRUE(perform(Verb::ReplacePod, "noobaa/web"));
  ASSERT_TRUE(run_until([this] { return serving("web") == 1; }, 5s));
  EXPECT_NE(uid_of(*pods_of("web").at(0)), uid);
}

}  // namespace
}  // namespace moonfence::sim
