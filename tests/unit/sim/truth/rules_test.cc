#include "sim/truth/rules.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace moonfence::sim {
namespace {

TEST(Rules, every_rule_is_explained_with_its_own_name) {
  std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/docs/simulation.md");
  std::stringstream page;
  page << file.rdbuf();
  std::set<std::string_view> names;
  for (const Rule& rule : all_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    const std::string row = "| `" + std::string(rule.name) + "` | " + std::string(rule.text) + " |";
    EXPECT_NE(page.str().find(row), std::string::npos) << "docs/simulation.md lacks " << row;
  }
}

}  // namespace
}  // namespace moonfence::sim
