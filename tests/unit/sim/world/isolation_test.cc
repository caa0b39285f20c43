// Storage that can refuse machines, and the person who looks after that.

#include "sim/ground/refusals.h"
#include "sim/world/csi_addons.h"
#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

struct IsolationTest : ClusterTest {
  FenceClassPlan& storage(FenceKind kind = FenceKind::Honest) {
    return plan.fence_classes.emplace_back(FenceClassPlan{.name = "ceph", .kind = kind});
  }
  void begin() {
    WorkloadPlan& core = add(WorkloadKind::StatefulSet, "core");
    core.node = "n1";
    core.volumes = 1;
    start();
  }
  void isolate() {
    ASSERT_TRUE(perform(Verb::Isolate, "n1"));
    run_for(2s);
  }
  [[nodiscard]] std::vector<Object> fences() const {
    return cluster->store().list(std::string(kFences));
  }
  [[nodiscard]] std::string result() const {
    return text_field(*fences().front(), {"status", "result"});
  }
  [[nodiscard]] bool refused(const std::string& node = "n1") const {
    return is_refused(cluster->machines(), "ceph", node);
  }
  [[nodiscard]] bool writes() const {
    const Machine& machine = cluster->machines().by_name.at("n1");
    const auto found = machine.containers.find(uid_of(*pod("core-0")));
    return found != machine.containers.end() &&
           may_write(cluster->machines(), "n1", found->second, *found->second.volumes.begin());
  }
};

TEST_F(IsolationTest, a_machine_that_its_storage_refuses_runs_on_and_writes_nothing) {
  storage();
  begin();
  EXPECT_TRUE(writes());
  isolate();
  EXPECT_EQ(result(), "Succeeded");
  EXPECT_TRUE(refused());
  EXPECT_FALSE(refused("n2"));
  EXPECT_FALSE(writes());
  EXPECT_TRUE(contains_container("n1", uid_of(*pod("core-0"))));
}

TEST_F(IsolationTest, the_result_may_come_before_the_last_server_refuses) {
  storage().lags = 800ms;
  begin();
  ASSERT_TRUE(perform(Verb::Isolate, "n1"));
  ASSERT_TRUE(run_until([this] { return result() == "Succeeded"; }));
  EXPECT_FALSE(refused());
  run_for(800ms);
  EXPECT_TRUE(refused());
}

TEST_F(IsolationTest, who_is_dead_says_nothing_who_fails_says_so_and_who_lies_does_nothing) {
  for (const auto& [kind, said] : {std::pair(FenceKind::Dead, ""),
                                   {FenceKind::Failing, "Failed"},
                                   {FenceKind::Lying, "Succeeded"}}) {
    plan.fence_classes.clear();
    plan.workloads.clear();
    storage(kind);
    begin();
    isolate();
    EXPECT_EQ(result(), said);
    EXPECT_FALSE(refused());
  }
}

TEST_F(IsolationTest, one_whose_machine_is_back_is_lifted_after_a_reboot) {
  storage();
  plan.lifting = Lifting::ByObject;
  begin();
  perform(Verb::PartitionNode, "n1");
  isolate();
  const std::string boot = cluster->machines().by_name.at("n1").boot_id;
  run_for(1min);
  EXPECT_TRUE(refused());
  perform(Verb::Heal, "n1");
  ASSERT_TRUE(run_until([this] { return fences().empty(); }));
  EXPECT_NE(cluster->machines().by_name.at("n1").boot_id, boot);
  EXPECT_FALSE(refused());
  ASSERT_TRUE(run_until([this] { return writes(); }));
}

TEST_F(IsolationTest, lifted_in_the_storage_the_network_fence_says_succeeded_as_before) {
  storage();
  plan.lifting = Lifting::InStorage;
  begin();
  perform(Verb::PartitionNode, "n1");
  isolate();
  perform(Verb::Heal, "n1");
  ASSERT_TRUE(run_until([this] { return !refused(); }));
  EXPECT_EQ(result(), "Succeeded");
  EXPECT_EQ(fences().size(), 1U);
}

TEST_F(IsolationTest, nothing_is_mounted_that_the_storage_refuses) {
  storage();
  begin();
  isolate();
  perform(Verb::PowerOff, "n1");
  run_for(10s);
  perform(Verb::Heal, "n1");
  run_for(1min);
  EXPECT_FALSE(contains_container("n1", uid_of(*pod("core-0"))));
}

TEST_F(IsolationTest, a_node_that_is_made_anew_tells_its_addresses_anew) {
  storage();
  begin();
  const auto told = [this] {
    return uid_of(*cluster->store().list(std::string(kCsiNodes)).front());
  };
  const std::string first = told();
  perform(Verb::RecreateNode, "n1");
  ASSERT_TRUE(run_until([&] { return told() != first; }));
  EXPECT_EQ(cluster->store().list(std::string(kCsiNodes)).size(), plan.nodes.size());
}

}  // namespace
}  // namespace moonfence::sim
