// The shipped NooBaa policy against the rows NB-* that need no engine.

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

policy::Policy noobaa(const std::string& replaced = "", const std::string& with = "") {
  static StoppedCpuClock clock;
  const std::string path = std::string(MOONFENCE_SOURCE_DIR) + "/policies/noobaa/policy.lua";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string source = text.str();
  if (!replaced.empty()) {
    source.replace(source.find(replaced), replaced.size(), with);
  }
  auto policy = policy::Policy::load(source, path, clock);
  EXPECT_TRUE(policy) << (policy ? "" : policy.error().text);
  return std::move(policy.value());
}

policy::Verdict decide(const policy::Policy& policy, const std::string& name) {
  const kube::Pod pod = pod_of(
      {{"metadata", {{"name", name}, {"namespace", "noobaa"}, {"labels", {{"app", "noobaa"}}}}}});
  return policy.decide(pod, node_of(sample_node()), sample_cluster()).value();
}

TEST(NooBaa, it_reacts_to_the_first_observation_and_sweeps_at_start) {
  const auto policy = noobaa();
  EXPECT_EQ(policy.name(), "noobaa");
  EXPECT_EQ(policy.trigger().failures, 1U);
  EXPECT_TRUE(policy.trigger().sweep);
  EXPECT_TRUE(policy.trigger().live_kubelet);
  EXPECT_FALSE(policy.trigger().deleted);
}

// Which namespace (NB-04) and which node (NB-06) is the engine's business: the policy is
// given a pod and says nothing about either.
TEST(NooBaa, NB_01_its_pods_are_deleted) {
  const auto policy = noobaa();
  for (const char* name : {"noobaa-core-0", "noobaa-endpoint-x", "noobaa-operator-abc",
                           "noobaa-db-pgbouncer-0", "other-noobaa-db-pg-0"}) {
    EXPECT_EQ(decide(policy, name).kind, policy::Verdict::Kind::DeletePod) << name;
  }
}

TEST(NooBaa, NB_05_the_label_is_exact) {
  const auto policy = noobaa();
  EXPECT_EQ(policy.label_selector(), "app=noobaa");
  EXPECT_TRUE(policy.selects({{"app", "noobaa"}, {"x", "y"}}));
  EXPECT_FALSE(policy.selects({{"app", "NooBaa"}}));
  EXPECT_FALSE(policy.selects({{"app", "noobaa2"}}));
  EXPECT_FALSE(policy.selects({}));
}

TEST(NooBaa, NB_07_database_pods_are_left_alone) {
  const auto policy = noobaa();
  for (const char* name : {"noobaa-db-pg-0", "noobaa-db-pg-cluster-1"}) {
    EXPECT_EQ(decide(policy, name).kind, policy::Verdict::Kind::Skip) << name;
  }
}

TEST(NooBaa, NB_08_the_setting_db_takes_them_too) {
  const auto policy = noobaa("default = \"skip\"", "default = \"pod\"");
  EXPECT_EQ(decide(policy, "noobaa-db-pg-0").kind, policy::Verdict::Kind::DeletePod);
}

}  // namespace
}  // namespace moonfence
