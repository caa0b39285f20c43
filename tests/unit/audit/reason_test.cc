#include "audit/reason.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "audit/explanation.h"

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

TEST(Reasons, every_code_is_in_the_published_schema_and_no_other) {
  std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/docs/audit.schema.json");
  const auto schema = nlohmann::json::parse(file);
  std::vector<std::string> published = schema["properties"]["reason"]["enum"];
  std::vector<std::string> codes;
  for (const Reason reason : all_reasons()) {
    codes.emplace_back(code(reason));
  }
  std::sort(published.begin(), published.end());
  std::sort(codes.begin(), codes.end());
  EXPECT_EQ(published, codes);
}

TEST(Reasons, an_explanation_is_the_row_of_the_page_without_its_links) {
  const Explanation taint = explain(Reason::AwaitingTaint);
  EXPECT_TRUE(taint.when.starts_with("The node carries no NoSchedule taint yet;")) << taint.when;
  EXPECT_TRUE(taint.what_to_do.ends_with("If it stays so: is kube-controller-manager running?"));
  EXPECT_EQ(explain(Reason::NotProvenClean).what_to_do,
            "Reboot the node, or take the taint off yourself.");
}

TEST(Reasons, every_reason_is_explained_and_says_what_to_do) {
  for (const Reason reason : all_reasons()) {
    EXPECT_FALSE(explain(reason).when.empty()) << code(reason);
    EXPECT_FALSE(explain(reason).what_to_do.empty()) << code(reason);
  }
}

}  // namespace
}  // namespace moonfence::audit
