#include "sim/checkers/liveness_checker.h"

#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

const Key kCore{.resource = "pods", .space = "noobaa", .name = "core-0"};

struct LivenessTest : JudgeTest {
  void edit(const Key& key, const std::function<void(Json&)>& change) {
    (void)store.update(key, change, ObjectStore::Part::Whole, "somebody");
  }
  void finish() {
    edit(kCore, [](Json& pod) { pod["status"]["phase"] = "Failed"; });
  }
  void ask_to_go() { (void)store.remove(kCore, {}, "somebody"); }
  // The Node of another machine, which is well.
  void make_anew() {
    (void)store.remove({.resource = "nodes", .space = {}, .name = "n1"}, {}, "somebody");
    make_node("n1");
  }
  [[nodiscard]] bool demands() {
    pass(100s);
    judge.at_end(100s);
    return breaks(rules::kNodeDealtWith);
  }
};

TEST_F(LivenessTest, a_finished_pod_is_demanded_if_somebody_had_asked_it_to_go) {
  ask_to_go();  // in its grace it is there: one that had finished would go at once
  finish();
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, one_that_nobody_asked_to_go_is_not) {
  finish();
  EXPECT_FALSE(demands());
}

TEST_F(LivenessTest, what_somebody_holds_is_demanded_when_he_lets_it_go) {
  const auto hold = [](Json& object) {
    object["metadata"]["annotations"]["moonfence.io/hold"] = "";
  };
  const auto let_go = [](Json& object) { object["metadata"].erase("annotations"); };
  (void)store.create("namespaces", "", {{"metadata", {{"name", "noobaa"}}}}, "somebody");
  for (const Key& key : {kCore, Key{.resource = "namespaces", .space = {}, .name = "noobaa"},
                         Key{.resource = "nodes", .space = {}, .name = "n1"}}) {
    edit(key, hold);
    EXPECT_FALSE(demands()) << key.resource;
    edit(key, let_go);
  }
  EXPECT_TRUE(demands());
}

// Its BMC is dead, and its storage does what it is told.
TEST_F(LivenessTest, a_pod_whose_node_can_be_isolated_is_demanded) {
  plan.settings["proof"] = "off,isolated";
  plan.config = "fencers:\n- {fencer: network-fence, isolate: true}\n";
  plan.bmcs = {{.node = "n1", .kind = BmcKind::Dead}};
  plan.fence_classes = {{.name = "ceph"}};
  machines.clusters = {"ceph"};
  EXPECT_FALSE(demands()) << "it has no volume there";
  (void)store.create("persistentvolumes", "",
                     {{"metadata", {{"name", "pv"}}},
                      {"spec", {{"csi", {{"driver", kFencedDriver}, {"volumeHandle", "disk"}}}}}},
                     "admin");
  (void)store.create("persistentvolumeclaims", "noobaa",
                     {{"metadata", {{"name", "claim"}}},
                      {"spec", {{"volumeName", "pv"}}},
                      {"status", {{"phase", "Bound"}}}},
                     "admin");
  edit(kCore, [](Json& pod) {
    pod["spec"]["volumes"] =
        Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "claim"}}}}});
  });
  plan.fence_classes.front().kind = FenceKind::Dead;
  EXPECT_FALSE(demands());
  plan.fence_classes.front().kind = FenceKind::Honest;
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, what_a_machine_made_anew_does_not_run_is_demanded) {
  pass(30s);
  make_anew();
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, what_a_machine_made_anew_runs_is_its_own) {
  pass(30s);
  make_anew();
  machines.by_name["n1"].containers[pod_uid] = {};
  EXPECT_FALSE(demands());
}

TEST_F(LivenessTest, of_a_machine_that_answers_nothing_is_demanded_by_who_asks_it) {
  Machine& machine = machines.by_name["n1"];
  machine.frozen = true;
  plan.settings["detection"] = "on";
  EXPECT_FALSE(demands());
  machine.powered = false;
  machine.answers_since = time.now + 100s - 60s + 1ns;  // demands() lets 100 s pass
  EXPECT_FALSE(demands());
  machine.answers_since -= 100s;
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, while_nobody_asks_a_machine_its_answer_excuses_nothing) {
  machines.by_name["n1"].frozen = true;
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, a_kubelet_that_says_that_it_is_not_ready_is_no_excuse) {
  recover("n1");
  set_node("n1", "False", true);
  machines.by_name["n1"].healthy = false;
  plan.settings["detection"] = "on";
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, what_a_machine_made_anew_answers_keeps_it_from_being_demanded) {
  plan.settings["detection"] = "on";
  machines.by_name["n1"];
  pass(30s);
  make_anew();
  EXPECT_FALSE(demands());
}

TEST_F(LivenessTest, of_a_node_that_was_hardly_silent_when_it_went_nothing_is_demanded) {
  pass(5s);
  make_anew();
  EXPECT_FALSE(demands());
}

TEST_F(LivenessTest, where_the_power_is_demanded_an_honest_bmc_has_to_say_that_it_is_off) {
  plan.settings["proof"] = "off";
  Machine& machine = machines.by_name["n1"];
  machine.powered = false;
  EXPECT_FALSE(demands());
  plan.bmcs = {{.node = "n1", .kind = BmcKind::Dead}};
  EXPECT_FALSE(demands());
  plan.bmcs.front().kind = BmcKind::Honest;
  plan.bmcs.front().takes = 3s;
  EXPECT_FALSE(demands());
  plan.bmcs.front().takes = 2s;
  plan.bmcs.front().of = "spare";
  EXPECT_FALSE(demands());
  plan.bmcs.front().of = "n1";
  machine.powered = true;
  EXPECT_FALSE(demands());
  machine.powered = false;
  EXPECT_TRUE(demands());
}

TEST_F(LivenessTest, a_policy_that_may_hold_its_pods_ends_that_with_an_edit) {
  edit(kPolicies, [](Json& map) {
    map["data"]["moonfence.yaml"] =
        policies_of("enforce") +
        "- {policy: odd, source: odd.lua, namespaces: [noobaa], mode: enforce}\n";
    map["data"]["odd.lua"] = "return policy {}\n";
  });
  EXPECT_FALSE(demands());
  edit(kPolicies, [](Json& map) { map["data"]["odd.lua"] = "-- sim: always\nreturn policy {}\n"; });
  EXPECT_TRUE(demands());
}

}  // namespace
}  // namespace moonfence::sim
