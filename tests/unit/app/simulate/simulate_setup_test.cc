#include "app/simulate/simulate_setup.h"

#include <gtest/gtest.h>

#include "os/system/system_files.h"
#include "os/tools/folders.h"
#include "support/temporary_folder.h"

namespace moonfence::app {
namespace {

Result<sim::Scenario> set_up(const SimulateOptions& options) {
  os::SystemFiles files;
  return set_up_scenario(options, files);
}

TEST(SimulateSetup, every_built_in_scenario_can_be_read) {
  for (const char* name :
       {"detection", "node-loss", "node-returns", "reload", "policy-error", "storm", "volumes"}) {
    const auto scenario = set_up({.scenario = name});
    ASSERT_TRUE(scenario.has_value()) << scenario.error().message();
    EXPECT_FALSE(scenario->expectations.empty()) << name;
    EXPECT_NE(list_scenarios().find(scenario->plan.name), std::string::npos);
  }
}

TEST(SimulateSetup, an_unknown_scenario_is_named_with_the_nearest) {
  const auto scenario = set_up({.scenario = "node-los"});
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error().message(),
            "'node-los' is no built-in scenario and no file (did you mean 'node-loss'?) "
            "(`moonfence simulate --list` lists the built-in ones)");
}

TEST(SimulateSetup, a_setting_of_a_policy_is_set_in_its_bindings) {
  const auto scenario = set_up({.set = {"noobaa.db=pod", "node-monitor-grace=20s"}, .seed = 9});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message();
  EXPECT_NE(scenario->plan.policies.at("moonfence.yaml").find("db: pod"), std::string::npos);
  EXPECT_EQ(scenario->plan.timings.node_monitor_grace, std::chrono::seconds(20));
  EXPECT_EQ(scenario->seed, 9U);
  EXPECT_TRUE(scenario->expectations.empty()) << "they are about the scenario as it is written";
}

TEST(SimulateSetup, a_setting_of_a_policy_that_is_not_bound_is_refused) {
  const auto scenario = set_up({.set = {"nooba.db=pod"}});
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error().text, "--set: no binding of this scenario has the policy 'nooba'");
}

TEST(SimulateSetup, a_folder_of_policies_stands_for_the_config_map) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("policies");
  ASSERT_TRUE(os::write_file(path + "/mine.lua", "return 1", true).has_value());
  ASSERT_TRUE(os::write_file(path + "/below/other.lua", "return 2", true).has_value());
  const auto without = set_up({.policies = path});
  ASSERT_FALSE(without.has_value());
  EXPECT_NE(without.error().text.find("has no moonfence.yaml"), std::string::npos);
  ASSERT_TRUE(os::write_file(path + "/moonfence.yaml", "api: 1", true).has_value());
  const auto scenario = set_up({.policies = path});
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message();
  EXPECT_EQ(scenario->plan.policies, (std::map<std::string, std::string>{
                                         {"mine.lua", "return 1"}, {"moonfence.yaml", "api: 1"}}));
}

TEST(SimulateSetup, settings_are_checked_as_the_engines_own) {
  sim::Plan plan;
  plan.settings = {{"retry-interval", "2s"}, {"cache-expiry", "0"}};
  const auto settings = settings_of(plan);
  ASSERT_TRUE(settings.has_value()) << settings.error().message();
  EXPECT_EQ(settings->retry_interval, std::chrono::seconds(2));
  EXPECT_EQ(settings->cache_expiry, Duration::zero());
  plan.settings = {{"max-down", "off"}, {"max-at-once", "2"},   {"zone-max-down", "70%"},
                   {"cool-down", "3s"}, {"brake-window", "1m"}, {"max-per-window", "4"}};
  const auto braked = settings_of(plan);
  ASSERT_TRUE(braked.has_value()) << braked.error().message();
  EXPECT_EQ(braked->brake, (fence::BrakeRules{.max_down = fence::Limit::off(),
                                              .cluster = {.at_once = fence::Limit::of(2),
                                                          .per_window = fence::Limit::of(4)},
                                              .zone_max_down = fence::Limit::share(70),
                                              .zone = {},
                                              .window = std::chrono::minutes(1),
                                              .cool_down = std::chrono::seconds(3)}));
  plan.settings["retry-interval"] = "1h";
  EXPECT_FALSE(settings_of(plan).has_value());
}

}  // namespace
}  // namespace moonfence::app
