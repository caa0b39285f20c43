#include "audit/reason.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace moonfence::audit {
namespace {

TEST(Reasons, every_code_is_its_own) {
  std::set<std::string_view> codes;
  for (const Reason reason : all_reasons()) {
    EXPECT_TRUE(codes.insert(code(reason)).second) << code(reason);
  }
}

TEST(Reasons, every_code_is_explained_to_operators) {
  std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/docs/reasons.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Reason reason : all_reasons()) {
    EXPECT_NE(page.str().find("| `" + std::string(code(reason)) + "` |"), std::string::npos)
        << code(reason) << " has no row in docs/reasons.md";
  }
}

}  // namespace
}  // namespace moonfence::audit
