#include "app/simulate/simulate_options.h"

#include <gtest/gtest.h>

#include "app/cli/options.h"

namespace moonfence::app {
namespace {

Command parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"moonfence", "simulate"});
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string complaint(const std::vector<const char*>& arguments) {
  const Command command = parse(arguments);
  const auto* leave = std::get_if<Leave>(&command);
  if (leave == nullptr) {
    return "";
  }
  EXPECT_EQ(leave->code, ExitCode::Usage);
  return leave->text;
}

TEST(SimulateOptions, nothing_is_the_loss_of_a_node) {
  const Command command = parse({});
  const auto& options = std::get<SimulateOptions>(command);
  EXPECT_EQ(options.scenario, "node-loss");
  EXPECT_EQ(options.seed, std::nullopt);
  EXPECT_FALSE(options.json);
}

TEST(SimulateOptions, everything_can_be_said) {
  const Command command = parse({"reload", "--policies", "p", "--set", "noobaa.db=pod", "--set",
                                 "length=2m", "--speed", "2.5", "--json", "--seed", "7"});
  const auto& options = std::get<SimulateOptions>(command);
  EXPECT_EQ(options.scenario, "reload");
  EXPECT_EQ(options.policies, "p");
  EXPECT_EQ(options.set, (std::vector<std::string>{"noobaa.db=pod", "length=2m"}));
  EXPECT_EQ(speed_of(options, false), 2.5);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_TRUE(options.json);
}

TEST(SimulateOptions, it_waits_only_for_somebody_who_watches) {
  SimulateOptions options;
  EXPECT_EQ(speed_of(options, true), 10);
  EXPECT_EQ(speed_of(options, false), std::nullopt);
  options.json = true;
  EXPECT_EQ(speed_of(options, true), std::nullopt);
  options.speed = "3";
  EXPECT_EQ(speed_of(options, false), 3);
  options.speed = "max";
  EXPECT_EQ(speed_of(options, true), std::nullopt);
}

TEST(SimulateOptions, what_is_wrong_is_named) {
  EXPECT_EQ(complaint({"--set", "db"}),
            "moonfence simulate: --set: 'db' is no KEY=VALUE, for example --set noobaa.db=pod\n"
            "Run with --help for more information.\n");
  EXPECT_EQ(complaint({"--speed", "fast"}),
            "moonfence simulate: --speed: 'fast' is no speed: write a number of virtual seconds "
            "per second, for example 10, or max\nRun with --help for more information.\n");
  EXPECT_NE(complaint({"--speed", "0"}), "");
  EXPECT_NE(complaint({"--seed", "x"}), "");
}

}  // namespace
}  // namespace moonfence::app
