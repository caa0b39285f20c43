#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

// What an administrator in a hurry does to a dead node, and what comes of it: the hazards that
// were measured on a real 1.36.2 and 1.20.2. "Doubled": published to the second node while it still
// is to the first.
struct HurryTest : ClusterTest {
  std::string home;
  Object core;
  const std::string handle = "vol-noobaa-v0-core-0";

  void begin(int kubernetes) {
    plan.kubernetes = kubernetes;
    add(WorkloadKind::StatefulSet, "core").volumes = 1;
    start();
    core = pod("core-0");
    home = node_of(*core);
  }
  void act(Verb verb, std::map<std::string, std::string> arguments = {}) {
    ASSERT_TRUE(perform(verb, home, std::move(arguments)));
  }
  // Seconds until it is doubled; -1: not within `limit`.
  double doubled_after(Duration limit) {
    const Moment begin = loop.now();
    const bool doubled = run_until([this] { return published(handle).size() > 1; }, limit);
    return doubled ? std::chrono::duration<double>(loop.now() - begin).count() : -1;
  }
  // Seconds until it is published to another node alone.
  double moved_after(Duration limit) {
    const Moment begin = loop.now();
    const bool moved = run_until(
        [this] { return published(handle).size() == 1 && !published(handle).contains(home); },
        limit);
    return moved ? std::chrono::duration<double>(loop.now() - begin).count() : -1;
  }
};

TEST_F(HurryTest, a_release_before_the_detach_ends_in_two_attachments_when_storage_refuses) {
  begin(36);
  lose(home);
  act(Verb::RefuseDetach);
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  const double seconds = doubled_after(10s);
  EXPECT_GE(seconds, 0.5);
  EXPECT_LE(seconds, 2);
}

TEST_F(HurryTest, before_1_29_a_detach_that_failed_keeps_the_volume_from_others) {
  begin(20);
  lose(home);
  act(Verb::RefuseDetach);
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  EXPECT_EQ(doubled_after(20min), -1);
}

TEST_F(HurryTest, a_release_while_detaching_is_slow_ends_so_after_two_minutes) {
  plan.timings.detach = 10min;
  begin(36);
  lose(home);
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  const double seconds = doubled_after(10min);
  EXPECT_GE(seconds, 120);
  EXPECT_LE(seconds, 122);
}

TEST_F(HurryTest, before_1_29_a_slow_detach_keeps_the_volume_from_others) {
  plan.timings.detach = 5min;
  begin(20);
  lose(home);
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  EXPECT_EQ(doubled_after(10min), -1);
  EXPECT_FALSE(published(handle).contains(home));
}

TEST_F(HurryTest, nothing_is_attached_or_detached_while_the_attacher_is_down) {
  begin(36);
  lose(home);
  ASSERT_TRUE(perform(Verb::StopAttacher, "", {{"for", "1m"}}));
  force_delete(*core);
  act(Verb::DeleteAttachments);
  run_for(59s);
  EXPECT_EQ(attachments_on(home), 1U);
  EXPECT_TRUE(run_until([this] { return attachments_on(home) == 0; }, 3s));
}

TEST_F(HurryTest, a_release_before_the_controllers_restart_ends_so_at_once) {
  plan.timings.detach = 30s;
  begin(36);
  lose(home);
  run_for(10s);  // a write of the node, a taint, would tell the controller what is in use
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  run_for(2s);
  ASSERT_TRUE(perform(Verb::RestartControllers, "", {{"for", "1s"}}));
  const double seconds = doubled_after(10s);
  EXPECT_GE(seconds, 1);
  EXPECT_LE(seconds, 3);
}

TEST_F(HurryTest, released_last_nothing_of_that_happens) {
  for (const Verb hindrance : {Verb::RestartControllers, Verb::StopAttacher, Verb::RefuseDetach}) {
    plan = {};
    plan.nodes = {{.name = "n1"}, {.name = "n2"}};
    begin(36);
    lose(home);
    force_delete(*core);
    act(Verb::DeleteAttachments);
    ASSERT_TRUE(perform(hindrance, home, {{"for", "30s"}}));
    EXPECT_EQ(doubled_after(60s), -1);
    ASSERT_EQ(attachments_on(home), 0U);
    act(Verb::ReleaseVolumes);
    EXPECT_EQ(doubled_after(5min), -1);
    EXPECT_EQ(published(handle).size(), 1U);
    EXPECT_FALSE(published(handle).contains(home));
  }
}

TEST_F(HurryTest, a_storage_that_never_lets_go_doubles_after_six_minutes_whoever_did_what) {
  begin(36);
  lose(home);
  act(Verb::RefuseDetach);
  force_delete(*core);
  act(Verb::DeleteAttachments);
  const double seconds = doubled_after(20min);
  EXPECT_GE(seconds, 360);
  EXPECT_LE(seconds, 365);
}

TEST_F(HurryTest, without_the_force_it_waits_for_ever) {
  plan.timings.attach_detach_timeout = {};
  begin(36);
  lose(home);
  act(Verb::RefuseDetach);
  force_delete(*core);
  act(Verb::DeleteAttachments);
  EXPECT_EQ(doubled_after(20min), -1);
}

TEST_F(HurryTest, without_the_sync_a_deleted_attachment_is_never_noticed) {
  plan.timings.attach_detach_resync = {};
  plan.timings.attach_detach_timeout = {};
  begin(36);
  lose(home);
  force_delete(*core);
  act(Verb::DeleteAttachments);
  EXPECT_EQ(moved_after(10min), -1);
  act(Verb::ReleaseVolumes);
  EXPECT_LE(moved_after(10s), 2);
}

TEST_F(HurryTest, a_list_that_comes_back_in_between_doubles) {
  plan.faults.informer_lag = {200ms, 200ms};
  begin(36);
  lose(home);
  force_delete(*core);
  run_for(1s);
  const Json before = list_field(*node(home), {"status", "volumesInUse"});
  act(Verb::ReleaseVolumes);
  run_for(100ms);
  ASSERT_TRUE(cluster->store().update(
      {.resource = "nodes", .space = {}, .name = home},
      [&before](Json& edited) { edited["status"]["volumesInUse"] = before; },
      ObjectStore::Part::Status, "kubelet"));
  const double seconds = doubled_after(10s);
  EXPECT_GE(seconds, 0);
  EXPECT_EQ(attachments_on(home), 1U);
}

TEST_F(HurryTest, the_taint_out_of_service_detaches_at_once) {
  begin(36);
  lose(home);
  force_delete(*core);
  act(Verb::TaintOutOfService);
  const double seconds = moved_after(10s);
  EXPECT_GE(seconds, 0);
  EXPECT_LE(seconds, 3);
}

TEST_F(HurryTest, an_old_control_plane_does_not_know_that_taint) {
  begin(20);
  lose(home);
  force_delete(*core);
  act(Verb::TaintOutOfService);
  EXPECT_EQ(moved_after(5min), -1);
}

TEST_F(HurryTest, a_polling_controller_takes_half_a_second_to_detach_and_to_attach) {
  plan.timings.attach = 1ms;
  plan.timings.detach = 1ms;
  begin(36);
  lose(home);
  force_delete(*core);
  act(Verb::ReleaseVolumes);
  const Moment begin = loop.now();
  ASSERT_TRUE(run_until([this] { return attachments_on(home) == 0; }, 1s));
  ASSERT_TRUE(run_until([this] {
    for (const Object& each : cluster->store().list("nodes")) {
      if (name_of(*each) != home && !list_field(*each, {"status", "volumesAttached"}).empty()) {
        return true;
      }
    }
    return false;
  }));
  const double seconds = std::chrono::duration<double>(loop.now() - begin).count();
  EXPECT_GE(seconds, 1.0);
  EXPECT_LE(seconds, 1.6);
}

TEST_F(HurryTest, after_a_restart_the_controllers_go_on) {
  begin(36);
  lose(home);
  ASSERT_TRUE(perform(Verb::RestartControllers, "", {{"for", "5s"}}));
  force_delete(*core);
  run_for(4s);
  EXPECT_EQ(pod("core-0"), nullptr);
  ASSERT_TRUE(run_until([this] { return pod("core-0") != nullptr; }, 5s));
  // The six minutes begin anew, and end.
  const double seconds = moved_after(20min);
  EXPECT_GE(seconds, 355);
  EXPECT_LE(seconds, 365);
}

TEST_F(HurryTest, a_refused_detach_is_said_and_tried_again) {
  begin(36);
  ASSERT_TRUE(perform(Verb::RefuseDetach, home, {{"for", "5s"}}));
  delete_attachments_of(home);
  const auto error = [this] {
    const auto all = cluster->store().list("volumeattachments");
    return all.size() == 1 && find_field(*all.front(), {"status", "detachError"}) != nullptr;
  };
  ASSERT_TRUE(run_until(error, 2s));
  EXPECT_EQ(published(handle), std::set<std::string>{home});
  EXPECT_TRUE(run_until([this] { return published(handle).empty(); }, 20s));
}

}  // namespace
}  // namespace moonfence::sim
