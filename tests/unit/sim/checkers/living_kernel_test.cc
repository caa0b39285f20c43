#include "sim/checkers/delete_checker.h"
#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

using Names = std::vector<std::string>;

// n1 is Unknown, has no Lease, and its machine is frozen.
struct LivingKernelTest : JudgeTest {
  LivingKernelTest() {
    plan.settings["detection"] = "on";
    machine().frozen = true;
    pass(10s);
  }
  [[nodiscard]] Machine& machine() { return machines.by_name["n1"]; }
  void bind(const std::string& text) {
    (void)store.update(
        kPolicies,
        [&text](Json& map) {
          map["data"]["moonfence.yaml"] =
              "api: 1\nbindings:\n- {policy: own, source: own.lua, namespaces: [noobaa], mode: "
              "enforce}\n";
          map["data"]["own.lua"] = text;
        },
        ObjectStore::Part::Whole, "admin");
    hear_policies();
  }
  void delete_pod() {
    prepare();
    send_delete(pod_uid);
  }
  void delete_attachment() {
    tell("incident_opened", "node_unknown");
    read_node();
    const Json intent = {{"kind", "intent"},
                         {"reason", "policy_detaches"},
                         {"incident", "i1"},
                         {"node", "n1"},
                         {"node_uid", uid("nodes", "", "n1")},
                         {"attachment_uid", "attachment-1"}};
    judge.on_audit(life, intent.dump());
    judge.on_left(request(port::Method::Delete,
                          "/apis/storage.k8s.io/v1/volumeattachments/va?timeout=5s",
                          R"({"preconditions":{"uid":"attachment-1"}})"));
  }
};

TEST_F(LivingKernelTest, nothing_is_deleted_of_a_node_whose_kernel_answers) {
  delete_pod();
  EXPECT_EQ(broken(), Names{"living-kernel"});
}

TEST_F(LivingKernelTest, nor_is_an_attachment) {
  delete_attachment();
  EXPECT_EQ(broken(), Names{"living-kernel"});
}

TEST_F(LivingKernelTest, who_asks_no_kernel_cannot_know) {
  plan.settings["detection"] = "off";
  delete_pod();
  delete_attachment();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, a_kernel_that_is_silent_is_no_obstacle) {
  machine().powered = false;
  delete_pod();
  EXPECT_EQ(broken(), Names{});
}

TEST_F(LivingKernelTest, nor_is_one_that_answers_again_for_less_than_ten_seconds) {
  machine().answers_since = time.now - 10s + 1ns;
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  pass(1ns);
  delete_pod();
  EXPECT_TRUE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, a_replica_that_has_just_started_has_heard_nobody) {
  restart("");
  hear_policies();
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, nor_has_one_that_was_stopped) {
  judge.on_paused(life, false);
  delete_pod();
  EXPECT_EQ(broken(), Names{});
}

TEST_F(LivingKernelTest, nor_has_one_that_was_cut_off) {
  judge.on_partitioned(life.replica, true);
  pass(1h);
  delete_pod();
  judge.on_partitioned(life.replica, false);
  pass(10s - 1ns);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  pass(1ns);
  delete_pod();
  EXPECT_TRUE(breaks(rules::kLivingKernel));
}

// A leader that hears nothing itself, because its path is broken, asks.
TEST_F(LivingKernelTest,
       what_another_replica_hears_counts_after_a_minute_in_which_it_could_be_asked) {
  judge.on_link_cut(life.replica, "n1", true);
  delete_pod();
  const Life other{.replica = "b", .incarnation = 9};
  judge.on_started(other);
  pass(60s - 1ns);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  pass(1ns);
  judge.on_paused(other, true);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  judge.on_paused(other, false);
  pass(60s);
  judge.on_died(other, true);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  judge.on_started(other);
  pass(60s);
  delete_pod();
  EXPECT_TRUE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, while_its_kubelet_speaks_nobody_asks_the_kernel) {
  set_node("n1", "False", true);
  make_lease();
  pass(40s);
  delete_pod();
  EXPECT_EQ(broken(), Names{});
}

// Who has read it within a second may have found it alive, and when it was written is known 20 s
// later at the latest.
TEST_F(LivingKernelTest, a_lease_is_dead_when_every_reading_says_so) {
  set_node("n1", "False", true);
  make_lease();
  pass(61s - 1ns);
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
  pass(1ns);
  delete_pod();
  EXPECT_TRUE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, a_policy_may_say_that_it_does_not_care) {
  bind("trigger = { live_kernel = true }");
  delete_pod();
  delete_attachment();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, one_that_says_nothing_of_it_cares) {
  bind("trigger = { live_kubelet = true }");
  delete_pod();
  EXPECT_TRUE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, what_a_source_says_counts_more) {
  bind("{ source = { every = '5s' } }");
  delete_pod();
  EXPECT_FALSE(breaks(rules::kLivingKernel));
}

TEST_F(LivingKernelTest, a_node_that_does_not_exist_has_no_kernel) {
  bind("trigger = { live_kubelet = true, deleted = true }");
  prepare();
  (void)store.remove({.resource = "nodes", .space = {}, .name = "n1"}, {}, "administrator");
  pass(5s);
  ServerAnswer answer;
  answer.status = 404;
  answer.body = Json{{"kind", "Status"}, {"details", {{"name", "n1"}}}}.dump();
  judge.on_answered(request(port::Method::Get, "/api/v1/nodes/n1"), answer);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

}  // namespace
}  // namespace moonfence::sim
