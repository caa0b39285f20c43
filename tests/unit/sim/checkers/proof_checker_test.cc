#include "sim/checkers/proof_checker.h"

#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

// n1 is Unknown, and its machine runs core-0; "off" is demanded, and an honest BMC says it.
struct ProofCheckerTest : JudgeTest {
  ProofCheckerTest() {
    plan.settings["proof"] = "off";
    plan.config = "fencers:\n- {fencer: redfish, switchOff: true}\n";
    plan.bmcs = {{.node = "n1"}};
    run(pod_uid, "n1", "core-0", {"disk"});
  }
  void run(const std::string& uid, const std::string& on, const std::string& pod,
           const std::set<std::string>& volumes = {}) {
    Machine& machine = machines.by_name[on];
    machine.name = on;
    machine.containers[uid] = {.pod_uid = uid, .space = "noobaa", .pod = pod, .volumes = volumes};
  }
  void switch_to(bool powered) {
    machines.by_name["n1"].powered = powered;
    machines.by_name["n1"].switched = time.now;
  }
  void delete_pod() {
    prepare();
    send_delete(pod_uid);
  }
  void look() { judge.after_cluster_turn(); }
  void mean_to_switch_off() {
    judge.on_audit(life, Json{{"kind", "intent"},
                              {"reason", "switches_off"},
                              {"action", "switch_off"},
                              {"incident", "i1"},
                              {"node", "n1"},
                              {"node_uid", uid("nodes", "", "n1")}}
                             .dump());
  }
  void order() { judge.on_ordered(life, plan.bmcs.front()); }
};

TEST_F(ProofCheckerTest, nothing_is_deleted_of_a_machine_that_has_power) {
  delete_pod();
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(ProofCheckerTest, one_without_power_is_no_obstacle) {
  switch_to(false);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kPoweredNode));
}

TEST_F(ProofCheckerTest, nobody_can_know_of_power_that_came_within_ten_seconds) {
  switch_to(true);
  pass(10s);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kPoweredNode));
  pass(1ns);
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kPoweredNode));
}

TEST_F(ProofCheckerTest, nor_that_a_bmc_lies_nor_where_nothing_is_demanded) {
  plan.bmcs.front().kind = BmcKind::Lying;
  delete_pod();
  plan.bmcs.front().kind = BmcKind::Honest;
  plan.settings.erase("proof");
  send_delete(pod_uid);
  EXPECT_FALSE(breaks(rules::kPoweredNode));
}

TEST_F(ProofCheckerTest, a_pod_that_the_engine_deleted_does_not_run_beside_its_replacement) {
  commit_delete();
  run("new", "spare", "core-0");
  look();
  look();
  EXPECT_TRUE(breaks(rules::kOverlap));
  EXPECT_EQ(judge.overlaps(), 1);
}

TEST_F(ProofCheckerTest, nor_does_it_write_what_another_one_writes) {
  commit_delete();
  run("new", "spare", "core-1", {"disk"});
  look();
  EXPECT_TRUE(breaks(rules::kOverlap));
}

TEST_F(ProofCheckerTest, without_proof_and_where_a_bmc_lies_it_is_counted) {
  commit_delete();
  plan.bmcs.front().kind = BmcKind::Lying;
  run("new", "spare", "core-0");
  look();
  plan.settings.erase("proof");
  run("newer", "spare", "core-0");
  look();
  EXPECT_FALSE(breaks(rules::kOverlap));
  EXPECT_EQ(judge.overlaps(), 2);
}

// What others are told of n1.
struct ToldTest : ProofCheckerTest {
  const std::string boot = "boot-1";

  void change(const std::function<void(Json&)>& edit) {
    (void)store.update({.resource = "nodes", .space = {}, .name = "n1"}, edit,
                       ObjectStore::Part::Whole, "kubelet");
  }
  void touch() {
    change([](Json& node) { node["metadata"]["labels"]["a"] = std::string("b") + node.dump(); });
  }
  void boot_again() {
    change([](Json& node) { node["status"]["nodeInfo"]["bootID"] = "boot-2"; });
  }
  void publish() {
    switch_to(false);
    const std::string node_uid = uid("nodes", "", "n1");
    change([&](Json& node) {
      Json& ready = node["status"]["conditions"][0];
      ready["lastHeartbeatTime"] = "2026-01-01T00:00:00Z";
      node["status"]["nodeInfo"]["bootID"] = boot;
      node["metadata"]["annotations"]["moonfence.io/fencing-evidence"] = Json{
          {"node", node_uid},
          {"bootID", boot},
          {"lastHeartbeatTime", ready["lastHeartbeatTime"]},
          {"evidence", Json::array({{{"kind", "off"}}})}}.dump();
    });
  }
};

TEST_F(ToldTest, a_boot_that_is_over_does_not_run) {
  publish();
  machines.by_name["n1"].boot_id = "boot-2";
  switch_to(true);
  touch();
  EXPECT_FALSE(breaks(rules::kToldEvidence));
  machines.by_name["n1"].boot_id = boot;
  touch();
  EXPECT_TRUE(breaks(rules::kToldEvidence));
}

TEST_F(ToldTest, what_holds_may_stand_there_for_ever) {
  publish();
  pass(24h);
  judge.at_end(1h);
  EXPECT_FALSE(breaks(rules::kToldEvidence));
}

TEST_F(ToldTest, what_is_void_goes_in_time) {
  publish();
  boot_again();
  pass(20s);
  judge.at_end(1h);  // it was calm all the while
  pass(10min);
  judge.at_end(320s);  // 400 s were not
  EXPECT_FALSE(breaks(rules::kToldEvidence));
  judge.at_end(321s);
  EXPECT_TRUE(breaks(rules::kToldEvidence));
}

TEST_F(ToldTest, what_a_kubelet_has_reported_since_makes_it_void) {
  publish();
  change([](Json& node) {
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:05:00Z";
  });
  pass(1h);
  judge.at_end(1h);
  EXPECT_TRUE(breaks(rules::kToldEvidence));
}

TEST_F(ToldTest, what_was_taken_off_is_forgotten) {
  publish();
  boot_again();
  change([](Json& node) { node["metadata"].erase("annotations"); });
  pass(1h);
  judge.at_end(1h);
  EXPECT_FALSE(breaks(rules::kToldEvidence));
}

TEST_F(ProofCheckerTest, what_others_deleted_is_not_the_engine_s_doing) {
  commit_delete("core-0", "administrator");
  run("new", "spare", "core-0");
  look();
  EXPECT_EQ(judge.overlaps(), 0);
}

TEST_F(ProofCheckerTest, another_pod_on_another_machine_is_no_overlap) {
  commit_delete();
  run("new", "spare", "core-1", {"another disk"});
  run("newer", "n1", "core-0");
  look();
  EXPECT_EQ(judge.overlaps(), 0);
}

TEST_F(ProofCheckerTest, an_order_needs_an_intent_each_time) {
  mean_to_switch_off();
  order();
  EXPECT_FALSE(breaks(rules::kSwitchedOff));
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, an_order_is_another_thing_than_the_node_s_taint) {
  tell("incident_opened", "node_unknown");
  judge.on_audit(life, Json{{"kind", "intent"},
                            {"reason", "sets_quarantine"},
                            {"action", "set_quarantine"},
                            {"incident", "i1"},
                            {"node", "n1"},
                            {"node_uid", uid("nodes", "", "n1")}}
                           .dump());
  mean_to_switch_off();
  EXPECT_EQ(broken(), std::vector<std::string>{});
}

TEST_F(ProofCheckerTest, an_order_goes_to_the_machine_of_its_node) {
  mean_to_switch_off();
  plan.bmcs.front().of = "spare";
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, who_may_only_ask_gives_no_orders) {
  plan.config = "fencers:\n- {fencer: redfish}\n";
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, a_node_that_is_up_is_not_switched_off) {
  recover("n1");
  pass(6s);
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, nor_is_one_whose_kubelet_renews_its_lease) {
  make_lease();
  pass(20s);
  renew_lease();
  pass(6s);
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

// Half of it is enough for the engine where Kubernetes has called the node Unknown since.
TEST_F(ProofCheckerTest, twenty_seconds_of_a_lease_are_enough_on_kubernetes_s_word) {
  make_lease();
  recover("n1");
  renew_lease();
  pass(20s);
  fall("n1");
  mean_to_switch_off();
  order();
  EXPECT_FALSE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, and_not_where_the_lease_has_moved_since_that_word) {
  make_lease();
  pass(1s);
  renew_lease();
  pass(25s);
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, of_a_machine_that_is_lost_kubernetes_need_say_nothing) {
  recover("n1");
  make_lease();
  pass(11s);
  tell("incident_opened", "node_lost");
  mean_to_switch_off();
  order();
  EXPECT_FALSE(breaks(rules::kSwitchedOff));
  renew_lease();
  pass(9s);
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, nor_is_one_whose_kernel_the_replica_hears) {
  plan.settings["detection"] = "on";
  machines.by_name["n1"].connected = true;
  machines.by_name["n1"].answers_since = time.now;
  pass(11s);
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, a_lease_that_stood_there_when_the_run_began_may_be_old) {
  time.now = Moment();
  make_lease();
  pass(10s);
  mean_to_switch_off();
  order();
  EXPECT_FALSE(breaks(rules::kSwitchedOff));
}

TEST_F(ProofCheckerTest, only_who_leads_gives_orders) {
  plan.engines = 2;
  (void)store.create(
      "leases", "moonfence",
      {{"metadata", {{"name", "moonfence"}}}, {"spec", {{"holderIdentity", "moonfence-1_x"}}}},
      "moonfence-1");
  mean_to_switch_off();
  order();
  EXPECT_TRUE(breaks(rules::kSwitchedOff));
}

}  // namespace
}  // namespace moonfence::sim
