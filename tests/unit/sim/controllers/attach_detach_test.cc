#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

// The rows of a StatefulSet pod with one volume on a node that dies: seconds from the deletion to
// the pod Running elsewhere, as measured on real control planes.
struct AttachDetachTest : ClusterTest {
  std::string home;
  Object core;
  const std::string handle = "vol-noobaa-v0-core-0";

  AttachDetachTest() {
    add(WorkloadKind::StatefulSet, "core").volumes = 1;
    start();
    core = pod("core-0");
    home = node_of(*core);
  }
  [[nodiscard]] bool is_back() const {
    const Object now = pod("core-0");
    return now != nullptr && uid_of(*now) != uid_of(*core) && serves(*now);
  }
  double seconds_until_back() {
    const Moment begin = loop.now();
    const bool back = run_until([this] { return is_back(); }, 20min);
    return back ? std::chrono::duration<double>(loop.now() - begin).count() : -1;
  }
  [[nodiscard]] std::size_t refusals() const {
    std::size_t count = 0;
    for (const Happening& one : told) {
      count += one.what.starts_with("Multi-Attach error") ? 1U : 0U;
    }
    return count;
  }
};

TEST_F(AttachDetachTest, nothing_done_the_pod_never_comes_back) {
  lose(home);
  EXPECT_EQ(seconds_until_back(), -1);
}

TEST_F(AttachDetachTest, only_the_pod_deleted_takes_the_six_minutes) {
  lose(home);
  force_delete(*core);
  const double seconds = seconds_until_back();
  EXPECT_GE(seconds, 360);
  EXPECT_LE(seconds, 363);
  EXPECT_EQ(refusals(), 1U);
}

TEST_F(AttachDetachTest, the_attachment_deleted_too_takes_up_to_a_minute) {
  lose(home);
  force_delete(*core);
  delete_attachments_of(home);
  const double seconds = seconds_until_back();
  EXPECT_GE(seconds, 0.5);
  EXPECT_LE(seconds, 62);
  EXPECT_EQ(attachments_on(home), 0U);
}

TEST_F(AttachDetachTest, released_last_it_takes_about_a_second) {
  lose(home);
  force_delete(*core);
  delete_attachments_of(home);
  ASSERT_TRUE(run_until([this] { return attachments_on(home) == 0; }, 2s));
  ASSERT_TRUE(cluster->store().update(
      {.resource = "nodes", .space = {}, .name = home},
      [](Json& edited) { edited["status"].erase("volumesInUse"); }, ObjectStore::Part::Status,
      "moonfence-0"));
  EXPECT_LE(seconds_until_back(), 2);
  EXPECT_TRUE(list_field(*node(home), {"status", "volumesAttached"}).empty());
}

TEST_F(AttachDetachTest, a_living_node_hands_its_volume_over_in_order) {
  ASSERT_TRUE(cluster->store().update(
      {.resource = "nodes", .space = {}, .name = home},
      [](Json& edited) { edited["spec"]["unschedulable"] = true; }, ObjectStore::Part::Spec,
      "administrator"));
  run_for(1s);
  ASSERT_TRUE(cluster->store().remove(key_of("pods", *core), {}, "administrator"));
  const double seconds = seconds_until_back();
  EXPECT_LE(seconds, 5);
  EXPECT_NE(node_of(*pod("core-0")), home);
  EXPECT_EQ(published(handle), std::set<std::string>{node_of(*pod("core-0"))});
}

TEST_F(AttachDetachTest, after_the_force_two_machines_run_the_pod_and_one_has_the_volume) {
  ASSERT_TRUE(perform(Verb::PartitionNode, home));
  ASSERT_TRUE(run_until(
      [this] { return has_taint(*node(home), "node.kubernetes.io/unreachable", "NoSchedule"); }));
  force_delete(*core);
  ASSERT_GE(seconds_until_back(), 360);
  const Object now = pod("core-0");
  EXPECT_TRUE(contains_container(home, uid_of(*core)));
  EXPECT_TRUE(contains_container(node_of(*now), uid_of(*now)));
  EXPECT_EQ(published(handle), std::set<std::string>{node_of(*now)});
}

TEST_F(AttachDetachTest, a_node_that_comes_back_gives_the_volume_up) {
  lose(home);
  force_delete(*core);
  run_for(30s);
  ASSERT_FALSE(is_back());
  ASSERT_TRUE(perform(Verb::Heal, home));
  const double seconds = seconds_until_back();
  EXPECT_GE(seconds, 0);
  EXPECT_LE(seconds, 10);
  EXPECT_EQ(published(handle).size(), 1U);
}

TEST_F(AttachDetachTest, an_attachment_deleted_under_a_living_pod_is_made_again) {
  delete_attachments_of(home);
  ASSERT_TRUE(run_until([this] { return attachments_on(home) == 0; }, 2s));
  EXPECT_TRUE(published(handle).empty());
  ASSERT_TRUE(run_until([this] { return attachments_on(home) == 1; }, 61s));
  run_for(2s);
  EXPECT_EQ(published(handle), std::set<std::string>{home});
}

TEST_F(AttachDetachTest, the_attachment_carries_the_name_that_the_engine_computes) {
  const auto attachments = cluster->store().list("volumeattachments");
  ASSERT_EQ(attachments.size(), 1U);
  const std::string& name = name_of(*attachments.at(0));
  EXPECT_EQ(name.size(), 68U);
  EXPECT_TRUE(name.starts_with("csi-"));
}

TEST_F(AttachDetachTest, the_volumes_of_a_recreated_node_are_reported_again) {
  ASSERT_TRUE(perform(Verb::RecreateNode, home));
  ASSERT_TRUE(run_until(
      [this] {
        return node(home) != nullptr &&
               !list_field(*node(home), {"status", "volumesAttached"}).empty();
      },
      10s));
}

}  // namespace
}  // namespace moonfence::sim
