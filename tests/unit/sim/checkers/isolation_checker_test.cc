// Proof by the storage: judged by whom that refuses in truth.

#include "sim/ground/refusals.h"
#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

// n1 is Unknown, and its machine runs core-0 with a volume of a storage that can refuse it.
struct IsolationCheckerTest : JudgeTest {
  IsolationCheckerTest() {
    plan.settings["proof"] = "off,isolated";
    plan.config = "fencers:\n- {fencer: network-fence, isolate: true}\n";
    plan.bmcs = {{.node = "n1", .kind = BmcKind::Dead}};
    plan.fence_classes = {{.name = "ceph"}};
    machines.clusters = {"ceph"};
    make_volume();
    run(pod_uid, "n1");
  }
  void make_volume() {
    (void)store.create("persistentvolumes", "",
                       {{"metadata", {{"name", "pv"}}},
                        {"spec", {{"csi", {{"driver", kFencedDriver}, {"volumeHandle", "disk"}}}}}},
                       "admin");
    (void)store.create("persistentvolumeclaims", "noobaa",
                       {{"metadata", {{"name", "claim"}}},
                        {"spec", {{"volumeName", "pv"}}},
                        {"status", {{"phase", "Bound"}}}},
                       "admin");
    mount({{"persistentVolumeClaim", {{"claimName", "claim"}}}});
  }
  void mount(const Json& volume) {
    (void)store.update(
        {.resource = "pods", .space = "noobaa", .name = "core-0"},
        [&volume](Json& pod) { pod["spec"]["volumes"].push_back(volume); },
        ObjectStore::Part::Whole, "admin");
  }
  void run(const std::string& uid, const std::string& on) {
    Machine& machine = machines.by_name[on];
    machine.name = on;
    machine.containers[uid] = {.pod_uid = uid,
                               .space = "noobaa",
                               .pod = "core-0",
                               .volumes = {"disk"},
                               .clusters = {{"disk", "ceph"}}};
  }
  void refuse(bool refused = true) {
    for (const std::string& address : storage_addresses("ceph", "n1")) {
      set_refused(machines, "ceph", address, refused, time.now);
    }
  }
  void delete_pod() {
    prepare();
    send_delete(pod_uid);
  }
  void look() { judge.after_cluster_turn(); }
  void mean_to_isolate() {
    judge.on_audit(life, Json{{"kind", "intent"},
                              {"reason", "isolates"},
                              {"action", "isolate"},
                              {"incident", "i1"},
                              {"node", "n1"},
                              {"node_uid", uid("nodes", "", "n1")}}
                             .dump());
  }
  void make_fence(const std::string& of = "n1") {
    Json cidrs = Json::array();
    for (const std::string& address : storage_addresses("ceph", of)) {
      cidrs.push_back(address + "/32");
    }
    const Json fence = {
        {"metadata", {{"name", "f"}, {"annotations", {{"moonfence.io/node", "n1"}}}}},
        {"spec", {{"networkFenceClassName", "ceph"}, {"fenceState", "Fenced"}, {"cidrs", cidrs}}}};
    judge.on_left(request(port::Method::Post, "/apis/csiaddons.openshift.io/v1alpha1/networkfences",
                          fence.dump()));
  }
};

TEST_F(IsolationCheckerTest, nothing_is_deleted_of_a_machine_that_runs_and_is_not_refused) {
  delete_pod();
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, one_that_its_storage_refuses_is_no_obstacle) {
  refuse();
  delete_pod();
  EXPECT_FALSE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, nobody_can_know_that_it_was_lifted_within_ten_seconds) {
  refuse();
  pass(1min);
  refuse(false);
  pass(10s);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kPoweredNode));
  pass(1ns);
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, a_pod_with_something_else_that_lasts_may_write_all_the_same) {
  mount({{"csi", {{"driver", "inline.example.com"}}}});
  refuse();
  delete_pod();
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, where_proof_is_for_volumes_only_pods_with_them_are_asked_about) {
  plan.settings = {{std::string(kVolumeProofWord), "off,isolated"}};
  pod_uid = make_pod("plain-0", "n1", "StatefulSet");
  prepare();
  send_delete(pod_uid, "noobaa/pods/plain-0");
  EXPECT_FALSE(breaks(rules::kPoweredNode));
  pod_uid = uid("pods", "noobaa", "core-0");
  delete_pod();
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, where_a_storage_lies_nobody_can_know) {
  plan.fence_classes.front().kind = FenceKind::Lying;
  delete_pod();
  EXPECT_FALSE(breaks(rules::kPoweredNode));
}

TEST_F(IsolationCheckerTest, who_writes_nothing_may_run_beside_its_replacement_until_it_is_lifted) {
  refuse();
  commit_delete();
  run("new", "spare");
  look();
  EXPECT_FALSE(breaks(rules::kOverlap));
  EXPECT_FALSE(breaks(rules::kSingleWriter));
  EXPECT_EQ(judge.overlaps(), 0);
  refuse(false);
  look();
  EXPECT_TRUE(breaks(rules::kOverlap));
}

TEST_F(IsolationCheckerTest, a_network_fence_needs_an_intent_each_time) {
  mean_to_isolate();
  make_fence();
  EXPECT_FALSE(breaks(rules::kIsolated));
  make_fence();
  EXPECT_TRUE(breaks(rules::kIsolated));
}

TEST_F(IsolationCheckerTest, it_refuses_nobody_else) {
  mean_to_isolate();
  make_fence("spare");
  EXPECT_TRUE(breaks(rules::kIsolated));
}

TEST_F(IsolationCheckerTest, nobody_isolates_a_node_that_is_well_or_where_no_fencer_may) {
  recover("n1");
  pass(6s);
  mean_to_isolate();
  make_fence();
  EXPECT_TRUE(breaks(rules::kIsolated));
}

TEST_F(IsolationCheckerTest, where_no_fencer_may_it_is_no_expected_write) {
  plan.config.clear();
  make_fence();
  EXPECT_TRUE(breaks(rules::kExpectedWrite));
}

TEST_F(IsolationCheckerTest, deletions_that_rest_on_it_are_counted) {
  refuse();
  prepare();
  judge.on_audit(life, Json{{"kind", "intent"},
                            {"action", "delete_pod"},
                            {"reason", "policy_deletes_pod"},
                            {"incident", "i1"},
                            {"node", "n1"},
                            {"pod_uid", pod_uid},
                            {"evidence", "unreachable, isolated (network-fence: x)"}}
                           .dump());
  commit_delete();
  EXPECT_EQ(judge.isolated(), 1);
}

}  // namespace
}  // namespace moonfence::sim
