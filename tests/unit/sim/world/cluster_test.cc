#include "sim/ground/blueprints.h"
#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

struct SettledTest : ClusterTest {
  SettledTest() {
    add(WorkloadKind::StatefulSet, "core").replicas = 2;
    plan.workloads.back().volumes = 1;
    add(WorkloadKind::Deployment, "web").replicas = 3;
    plan.workloads.back().volumes = 1;
    add(WorkloadKind::DaemonSet, "agent");
    add(WorkloadKind::Bare, "lone");
    add(WorkloadKind::Mirror, "etcd").node = "n1";
    add(WorkloadKind::Finished, "backup");
    start();
  }
};

TEST_F(SettledTest, everything_runs_from_the_start_and_nothing_changes_in_quiet_minutes) {
  EXPECT_EQ(serving("core"), 2U);
  EXPECT_EQ(serving("web"), 3U);
  EXPECT_EQ(serving("agent"), 3U);
  EXPECT_EQ(serving("lone"), 1U);
  EXPECT_EQ(serving("etcd"), 1U);
  EXPECT_EQ(phase_of(*pod("backup")), "Succeeded");
  run_for(10min);
  EXPECT_TRUE(told.empty()) << told.front().subject << " " << told.front().what << " by "
                            << told.front().detail;
}

TEST_F(SettledTest, pods_that_share_a_volume_of_one_node_are_together) {
  const auto pods = pods_of("web");
  EXPECT_EQ(node_of(*pods.at(0)), node_of(*pods.at(1)));
  EXPECT_EQ(node_of(*pods.at(0)), node_of(*pods.at(2)));
}

TEST_F(SettledTest, every_running_pod_has_a_container_that_writes_its_volumes) {
  const Object core = pod("core-0");
  const Machine& machine = cluster->machines().by_name.at(node_of(*core));
  const Container& container = machine.containers.at(uid_of(*core));
  EXPECT_EQ(container.volumes, std::set<std::string>{"vol-noobaa-v0-core-0"});
  EXPECT_EQ(published("vol-noobaa-v0-core-0"), std::set<std::string>{machine.name});
}

TEST_F(SettledTest, every_node_says_where_its_kubelet_serves_to_who_asks) {
  EXPECT_FALSE(node("n1")->at("status").contains("daemonEndpoints"));
  plan.settings["detection"] = "on";
  cluster.reset();
  start();
  const auto address = [this](const std::string& name) {
    const Json& first = node(name)->at("status").at("addresses").at(0);
    EXPECT_EQ(text_field(first, {"type"}), "InternalIP");
    EXPECT_EQ(number_field(*node(name), {"status", "daemonEndpoints", "kubeletEndpoint", "Port"}),
              kKubeletPort);
    return text_field(first, {"address"});
  };
  const std::string before = address("n1");
  EXPECT_EQ(before, cluster->machines().by_name.at("n1").address);
  EXPECT_NE(before, address("n2"));
  ASSERT_TRUE(perform(Verb::RecreateNode, "n1"));
  ASSERT_TRUE(run_until([this] { return node("n1") != nullptr && ready("n1") == "True"; }));
  EXPECT_EQ(address("n1"), before);
}

TEST_F(ClusterTest, two_names_of_one_address_get_two) {
  ASSERT_EQ(address_of("n9389"), address_of("n10622"));
  plan.nodes = {{.name = "n9389"}, {.name = "n10622"}};
  start();
  const auto& machines = cluster->machines().by_name;
  EXPECT_NE(machines.at("n9389").address, machines.at("n10622").address);
}

TEST_F(SettledTest, the_same_seed_gives_the_same_run) {
  const auto story_of = [this] {
    told.clear();
    cluster.reset();
    random = test::FakeRandom(7);
    start();
    const std::string victim = node_of(*pod("core-0"));
    EXPECT_TRUE(perform(Verb::PowerOff, victim));
    run_for(6min);
    EXPECT_TRUE(perform(Verb::Heal, victim));
    run_for(2min);
    std::vector<std::string> lines;
    for (const Happening& one : told) {
      lines.push_back(format_duration(one.at) + " " + one.subject + " " + one.what);
    }
    return lines;
  };
  const auto first = story_of();
  EXPECT_GT(first.size(), 10U);
  EXPECT_EQ(story_of(), first);
}

TEST_F(SettledTest, a_step_without_its_target_does_nothing) {
  EXPECT_FALSE(perform(Verb::PowerOff, "n9"));
  EXPECT_FALSE(perform(Verb::ReplacePod, "noobaa/core-7"));
  EXPECT_FALSE(perform(Verb::Scale, "noobaa/none", {{"replicas", "2"}}));
  EXPECT_FALSE(perform(Verb::DeletePolicies, ""));
  EXPECT_TRUE(told.empty());
}

TEST_F(SettledTest, policies_are_edited_file_by_file) {
  EXPECT_TRUE(perform(Verb::EditPolicies, "", {{"moonfence.yaml", "a"}, {"extra.lua", "b"}}));
  EXPECT_TRUE(perform(Verb::EditPolicies, "", {{"extra.lua", ""}}));
  const Object map = cluster->store().find(
      {.resource = "configmaps", .space = "moonfence", .name = "moonfence-policies"});
  ASSERT_NE(map, nullptr);
  EXPECT_EQ(map->at("data"), Json({{"moonfence.yaml", "a"}}));
  EXPECT_TRUE(perform(Verb::DeletePolicies, ""));
}

TEST_F(SettledTest, a_server_is_away_for_as_long_as_asked) {
  ASSERT_EQ(cluster->servers(), 1U);
  ASSERT_TRUE(perform(Verb::RestartServer, "api-0", {{"for", "3s"}}));
  EXPECT_TRUE(cluster->server(0).mood().down);
  run_for(4s);
  EXPECT_FALSE(cluster->server(0).mood().down);
  EXPECT_FALSE(perform(Verb::RestartServer, "api-1"));
}

TEST_F(SettledTest, calm_ends_what_was_drawn_for_the_servers) {
  plan.faults.too_many = 0.5;
  cluster.reset();
  start();
  EXPECT_EQ(cluster->server(0).mood().too_many, 0.5);
  ASSERT_TRUE(perform(Verb::Calm, ""));
  EXPECT_EQ(cluster->server(0).mood().too_many, 0);
}

}  // namespace
}  // namespace moonfence::sim
