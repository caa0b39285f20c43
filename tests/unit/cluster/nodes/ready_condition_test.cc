#include "cluster/nodes/ready_condition.h"

#include <gtest/gtest.h>

namespace moonfence::cluster {
namespace {

kube::Node with_ready(const std::string& status) {
  kube::Node node;
  node.ready = kube::Condition{.status = status, .last_transition_time = std::nullopt};
  return node;
}

kube::Node with_taint(const std::string& key, const std::string& effect) {
  kube::Node node;
  node.taints = {{.key = key, .value = "", .effect = effect}};
  return node;
}

TEST(ReadinessOf, each_state_is_told_apart) {  // rows E-21, NB-03
  EXPECT_EQ(readiness_of(with_ready("True")), Readiness::True);
  EXPECT_EQ(readiness_of(with_ready("False")), Readiness::False);
  EXPECT_EQ(readiness_of(with_ready("Unknown")), Readiness::Unknown);
  EXPECT_EQ(readiness_of(kube::Node{}), Readiness::Missing);
}

TEST(ReadinessOf, a_status_the_api_does_not_define_is_never_ready) {
  for (const char* status : {"", "true", "TRUE", "yes"}) {
    EXPECT_EQ(readiness_of(with_ready(status)), Readiness::Unknown) << status;
  }
}

TEST(IsDown, a_deleted_node_is_no_down_signal) {  // row E-20
  EXPECT_TRUE(is_down(Readiness::False));
  EXPECT_TRUE(is_down(Readiness::Unknown));
  EXPECT_TRUE(is_down(Readiness::Missing));
  EXPECT_FALSE(is_down(Readiness::True));
  EXPECT_FALSE(is_down(Readiness::Gone));
}

TEST(KeepsReplacementsOff, only_taints_that_say_down_count) {
  EXPECT_TRUE(keeps_replacements_off(with_taint("node.kubernetes.io/unreachable", "NoSchedule")));
  EXPECT_TRUE(keeps_replacements_off(with_taint("node.kubernetes.io/not-ready", "NoSchedule")));
  EXPECT_TRUE(keeps_replacements_off(with_taint("moonfence.io/fenced", "NoSchedule")));
  // Pods tolerate NoExecute for 300 s by default: the scheduler would use the node again.
  EXPECT_FALSE(keeps_replacements_off(with_taint("node.kubernetes.io/unreachable", "NoExecute")));
  // The very pods that live there tolerate the cluster's own taints.
  EXPECT_FALSE(keeps_replacements_off(with_taint("dedicated", "NoSchedule")));
  EXPECT_FALSE(keeps_replacements_off(kube::Node{}));
}

TEST(ReadinessWords, are_those_of_the_policy_api) {
  EXPECT_EQ(to_string(Readiness::Gone), "deleted");
  EXPECT_EQ(to_string(Readiness::Missing), "missing");
}

}  // namespace
}  // namespace moonfence::cluster
