// Each file of tests/scenarios is a test: a cluster in memory, the product's engine in it, and what
// is expected of the two.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/simulate/simulate_command.h"
#include "os/system/system_files.h"

namespace moonfence {
namespace {

std::vector<std::string> scenario_files() {
  std::vector<std::string> found;
  const std::filesystem::path root(MOONFENCE_SOURCE_DIR);
  for (const std::filesystem::path& folder :
       {root / "tests" / "scenarios", root / "engine" / "sim" / "scenarios"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".txt") {
        found.push_back(entry.path().string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

class Scenarios : public testing::TestWithParam<std::string> {};

TEST_P(Scenarios, goes_as_expected) {
  os::SystemFiles files;
  std::string out;
  const auto exit =
      app::run_scenario_file(GetParam(), files, [&out](std::string_view text) { out += text; });
  EXPECT_EQ(exit, app::SimulateExit::Ok) << out;
}

INSTANTIATE_TEST_SUITE_P(Files, Scenarios, testing::ValuesIn(scenario_files()),
                         [](const testing::TestParamInfo<std::string>& file) {
                           std::string name = std::filesystem::path(file.param).stem().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ScenarioFiles, are_found) {
  EXPECT_GE(scenario_files().size(), 40U);
}

}  // namespace
}  // namespace moonfence
