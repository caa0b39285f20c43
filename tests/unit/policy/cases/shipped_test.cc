// What the shipped policies declare: that is nothing a case of theirs could ask about.

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

policy::Policy shipped(const std::string& name, const nlohmann::json& settings = {}) {
  static StoppedCpuClock clock;
  const std::string path = std::string(MOONFENCE_SOURCE_DIR) + "/policies/" + name + "/policy.lua";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto policy = policy::Policy::load(text.str(), path, clock);
  EXPECT_TRUE(policy) << (policy ? "" : policy.error().text);
  auto bound = policy->with_settings(settings.is_null() ? nlohmann::json::object() : settings);
  EXPECT_TRUE(bound) << (bound ? "" : bound.error().text);
  return std::move(bound.value());
}

std::string refusal(const std::string& name, const nlohmann::json& settings) {
  const auto bound = shipped(name).with_settings(settings);
  return bound ? "" : bound.error().text;
}

TEST(Generic, a_node_whose_kubelet_may_live_does_not_count) {
  const auto policy = shipped("generic");
  EXPECT_EQ(policy.label_selector(), "moonfence.io/fence=true");
  EXPECT_FALSE(policy.trigger().live_kubelet);
  EXPECT_FALSE(policy.trigger().deleted);
  EXPECT_TRUE(policy.trigger().sweep);
  EXPECT_EQ(policy.settings_values()["drivers"], nlohmann::json::array());
}

TEST(Longhorn, a_deleted_node_and_one_whose_kubelet_may_live_count) {
  const auto policy = shipped("longhorn");
  EXPECT_EQ(policy.trigger().failures, 1U);
  EXPECT_TRUE(policy.trigger().live_kubelet);
  EXPECT_TRUE(policy.trigger().deleted);
  EXPECT_TRUE(policy.trigger().sweep);
  EXPECT_EQ(policy.label_selector(), "");
}

TEST(Longhorn, it_needs_the_other_pods_of_a_claim_for_two_settings_alone) {
  EXPECT_TRUE(shipped("longhorn").needs().volumes);
  EXPECT_FALSE(shipped("longhorn").needs().siblings);
  EXPECT_TRUE(
      shipped("longhorn", {{"volume_attachment_recovery_policy", "never"}}).needs().siblings);
  EXPECT_TRUE(shipped("longhorn", {{"clean_up_forced_deletions", true}}).needs().siblings);
}

TEST(Longhorn, LH_02_an_unknown_value_is_refused) {
  EXPECT_NE(
      refusal("longhorn", {{"node_down_pod_deletion_policy", "delete-all"}}).find("delete-all"),
      std::string::npos);
}

TEST(IOMesh, IO_02_IO_19_it_acts_at_the_third_probe_also_of_a_node_that_was_down_before) {
  const auto policy = shipped("iomesh");
  EXPECT_EQ(policy.trigger().failures, 3U);
  EXPECT_EQ(policy.trigger().interval, seconds(30));
  EXPECT_TRUE(policy.trigger().sweep);
  EXPECT_TRUE(policy.trigger().live_kubelet);
  EXPECT_FALSE(policy.trigger().deleted);
}

TEST(IOMesh, IO_04_the_probes_are_settings) {
  const auto policy = shipped("iomesh", {{"probe_failures", 5}, {"probe_interval", "10s"}});
  EXPECT_EQ(policy.trigger().failures, 5U);
  EXPECT_EQ(policy.trigger().interval, seconds(10));
}

TEST(StorageOS, SO_25_it_polls_every_5_s_or_less_often) {
  const auto usual = shipped("storageos");
  EXPECT_EQ(usual.health_source()->every, seconds(5));
  EXPECT_EQ(usual.health_source()->expiry, hours(1));
  EXPECT_TRUE(usual.notices().empty());
  const auto eager = shipped("storageos", {{"poll_interval", "2s"}});
  EXPECT_EQ(eager.health_source()->every, seconds(5));
  ASSERT_EQ(eager.notices().size(), 1U);
  EXPECT_NE(eager.notices()[0].find("poll_interval"), std::string::npos);
  EXPECT_EQ(shipped("storageos", {{"poll_interval", "13s"}}).health_source()->every, seconds(13));
}

TEST(StorageOS, it_is_asked_about_labelled_pods_alone) {
  EXPECT_EQ(shipped("storageos").label_selector(), "storageos.com/fenced");
}

}  // namespace
}  // namespace moonfence
