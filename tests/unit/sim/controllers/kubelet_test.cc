#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

struct KubeletTest : ClusterTest {
  std::string home;
  Object core;

  KubeletTest() {
    add(WorkloadKind::StatefulSet, "core").volumes = 1;
    add(WorkloadKind::Deployment, "web");
    add(WorkloadKind::Mirror, "etcd").node = "n1";
  }
  void begin() {
    start();
    core = pod("core-0");
    home = node_of(*core);
  }
  [[nodiscard]] const Machine& machine() const { return cluster->machines().by_name.at(home); }
  [[nodiscard]] std::string renewed() const {
    return text_field(
        *cluster->store().find({.resource = "leases", .space = "kube-node-lease", .name = home}),
        {"spec", "renewTime"});
  }
};

TEST_F(KubeletTest, the_lease_is_renewed_about_every_ten_seconds) {
  begin();
  std::string last = renewed();
  int renewals = 0;
  run_until(
      [&] {
        renewals += renewed() != last ? 1 : 0;
        last = renewed();
        return false;
      },
      100s);
  EXPECT_GE(renewals, 9);
  EXPECT_LE(renewals, 11);
}

TEST_F(KubeletTest, a_pod_that_is_deleted_is_gone_after_its_containers_have_stopped) {
  plan.workloads.at(0).stop_time = 4s;
  begin();
  ASSERT_TRUE(cluster->store().remove(key_of("pods", *core), {}, "somebody"));
  run_for(3s);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(is_terminating(*pod("core-0")));
  run_for(2s);
  EXPECT_FALSE(contains_container(home, uid_of(*core)));
  ASSERT_TRUE(run_until(
      [this] {
        return pod("core-0") != nullptr && uid_of(*pod("core-0")) != uid_of(*core) &&
               serves(*pod("core-0"));
      },
      10s));
}

TEST_F(KubeletTest, containers_that_will_not_stop_are_killed_when_the_grace_ends) {
  plan.workloads.at(0).stop_time = 10min;
  begin();
  ASSERT_TRUE(cluster->store().remove(key_of("pods", *core), {}, "somebody"));
  ASSERT_TRUE(run_until([this] { return pod("core-0") == nullptr; }, 32s));
}

TEST_F(KubeletTest, power_off_stops_everything_and_a_boot_starts_it_again_with_another_id) {
  begin();
  const std::string boot_id = machine().boot_id;
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  EXPECT_TRUE(machine().containers.empty());
  EXPECT_EQ(published("vol-noobaa-v0-core-0"), std::set<std::string>{home});
  run_for(10s);
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return contains_container(home, uid_of(*core)); }, 10s));
  EXPECT_NE(machine().boot_id, boot_id);
  EXPECT_EQ(text_field(*node(home), {"status", "nodeInfo", "bootID"}), machine().boot_id);
  EXPECT_TRUE(serves("core-0", home));
}

TEST_F(KubeletTest, cut_off_it_runs_on_and_stops_what_was_deleted_when_it_is_back) {
  begin();
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  force_delete(*core);
  run_for(1min);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return !contains_container(home, uid_of(*core)); }, 3s));
}

TEST_F(KubeletTest, back_again_it_restores_its_list_of_volumes_in_use) {
  begin();
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  const Json before = node(home)->at("status").at("volumesInUse");
  ASSERT_TRUE(cluster->store().update(
      {.resource = "nodes", .space = {}, .name = home},
      [](Json& edited) { edited["status"].erase("volumesInUse"); }, ObjectStore::Part::Status,
      "moonfence-0"));
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "True"; }));
  EXPECT_EQ(list_field(*node(home), {"status", "volumesInUse"}), before);
}

TEST_F(KubeletTest, a_stopped_kubelet_leaves_its_containers_running) {
  begin();
  ASSERT_TRUE(perform(Verb::StopKubelet, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(1min);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(serves("core-0", home));
}

TEST_F(KubeletTest, a_frozen_machine_says_and_does_nothing_and_goes_on_where_it_stood) {
  begin();
  ASSERT_TRUE(perform(Verb::Freeze, home));
  const std::string last = renewed();
  EXPECT_TRUE(machine().answers());
  EXPECT_FALSE(machine().sound());
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  EXPECT_EQ(renewed(), last);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  const std::string boot_id = machine().boot_id;
  const WallTime started = machine().kubelet_started;
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "True"; }, 3s));
  EXPECT_NE(renewed(), last);
  EXPECT_EQ(machine().boot_id, boot_id);
  EXPECT_EQ(machine().kubelet_started, started);
  run_for(1min);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(serves("core-0", home));
}

TEST_F(KubeletTest, a_frozen_machine_stops_and_starts_nothing_until_it_goes_on) {
  plan.workloads.at(0).stop_time = 4s;
  begin();
  ASSERT_TRUE(cluster->store().remove(key_of("pods", *core), {}, "somebody"));
  run_for(1s);
  ASSERT_TRUE(perform(Verb::Freeze, home));
  run_for(1min);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(is_terminating(*pod("core-0")));
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return !contains_container(home, uid_of(*core)); }, 10s));
}

TEST_F(KubeletTest, a_frozen_machine_stops_what_was_deleted_when_it_goes_on) {
  begin();
  ASSERT_TRUE(perform(Verb::Freeze, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  force_delete(*core);
  run_for(1min);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  ASSERT_TRUE(perform(Verb::Heal, home));
  ASSERT_TRUE(run_until([this] { return !contains_container(home, uid_of(*core)); }, 3s));
}

TEST_F(KubeletTest, what_the_kernel_says_is_remembered_apart_from_the_rest) {
  begin();
  run_for(10s);
  ASSERT_TRUE(perform(Verb::StopKubelet, home));
  ASSERT_TRUE(perform(Verb::Freeze, home));
  EXPECT_TRUE(machine().answers());
  EXPECT_EQ(machine().answers_since, Moment(loop.now() - 10s));
  run_for(10s);
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  const Moment fell = loop.now();
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  run_for(10s);
  EXPECT_FALSE(machine().answers());
  EXPECT_EQ(machine().answers_since, fell);
  ASSERT_TRUE(perform(Verb::Heal, home));
  EXPECT_TRUE(machine().answers());
  EXPECT_EQ(machine().answers_since, loop.now());
}

TEST_F(KubeletTest, the_shadow_of_a_static_pod_comes_back) {
  begin();
  const Object shadow = pod("etcd-n1");
  ASSERT_NE(shadow, nullptr);
  force_delete(*shadow);
  ASSERT_TRUE(run_until([this] { return pod("etcd-n1") != nullptr; }, 3s));
  EXPECT_NE(uid_of(*pod("etcd-n1")), uid_of(*shadow));
}

TEST_F(KubeletTest, a_machine_remembers_since_when_it_is_impaired) {
  begin();
  run_for(10s);
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  EXPECT_FALSE(machine().sound());
  EXPECT_EQ(machine().impaired_since, loop.now());
  run_for(10s);
  ASSERT_TRUE(perform(Verb::Heal, home));
  EXPECT_TRUE(machine().sound());
  EXPECT_EQ(machine().impaired_since, loop.now());
}

TEST_F(KubeletTest, one_that_is_cut_off_and_then_dies_is_impaired_since_the_first) {
  begin();
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  const Moment first = loop.now();
  run_for(10s);
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  EXPECT_EQ(machine().impaired_since, first);
}

TEST_F(KubeletTest, a_booted_one_leaves_its_list_of_volumes_until_it_knows_its_pods) {
  begin();
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_until(
      [this] {
        EXPECT_FALSE(list_field(*node(home), {"status", "volumesInUse"}).empty());
        return false;
      },
      10s);
}

TEST_F(KubeletTest, a_restarted_one_never_reports_what_the_api_does_not_call_attached) {
  begin();
  ASSERT_TRUE(perform(Verb::StopKubelet, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  const auto forget = [](Json& edited) {
    edited["status"].erase("volumesInUse");
    edited["status"].erase("volumesAttached");
  };
  ASSERT_TRUE(cluster->store().update({.resource = "nodes", .space = {}, .name = home}, forget,
                                      ObjectStore::Part::Status, "somebody"));
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(30s);
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(list_field(*node(home), {"status", "volumesInUse"}).empty());
}

TEST_F(KubeletTest, one_that_was_only_cut_off_reports_its_volumes_again) {
  begin();
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  ASSERT_TRUE(run_until([this] { return ready(home) == "Unknown"; }));
  const auto forget = [](Json& edited) {
    edited["status"].erase("volumesInUse");
    edited["status"].erase("volumesAttached");
  };
  ASSERT_TRUE(cluster->store().update({.resource = "nodes", .space = {}, .name = home}, forget,
                                      ObjectStore::Part::Status, "somebody"));
  ASSERT_TRUE(perform(Verb::Heal, home));
  EXPECT_TRUE(run_until(
      [this] {
        return !list_field(*node(home), {"status", "volumesInUse"}).empty();
      },
      11s));
}

TEST_F(KubeletTest, a_pod_held_by_a_finalizer_has_stopped_and_gives_its_volume_up) {
  plan.workloads.at(0).finalizers = {"example.com/hold"};
  begin();
  ASSERT_TRUE(cluster->store().remove(key_of("pods", *core), {}, "somebody"));
  ASSERT_TRUE(run_until([this] { return attachments_on(home) == 0; }, 5s));
  EXPECT_TRUE(is_terminating(*pod("core-0")));
  EXPECT_FALSE(contains_container(home, uid_of(*core)));
}

TEST_F(KubeletTest, a_machine_that_boots_has_power_and_runs_nothing) {
  plan.timings.boot = 30s;
  begin();
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(29s);
  EXPECT_TRUE(machine().powered && machine().booting && machine().containers.empty());
  EXPECT_FALSE(machine().answers());
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(4s);
  EXPECT_TRUE(machine().sound());
  EXPECT_FALSE(machine().containers.empty());
}

TEST_F(KubeletTest, a_boot_that_loses_its_power_begins_anew) {
  plan.timings.boot = 30s;
  begin();
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(20s);
  ASSERT_TRUE(perform(Verb::PowerOff, home));
  run_for(20s);
  EXPECT_FALSE(machine().powered || machine().booting);
  ASSERT_TRUE(perform(Verb::Heal, home));
  run_for(29s);
  EXPECT_TRUE(machine().booting);
  run_for(2s);
  EXPECT_TRUE(machine().sound());
}

}  // namespace
}  // namespace moonfence::sim
