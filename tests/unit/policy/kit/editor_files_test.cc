#include "policy/kit/editor_files.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::policy {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What the repository holds is what `moonfence policy meta` prints. After a change of the API:
// moonfence policy meta -o policies && moonfence policy meta --markdown >docs/policy-api.md
TEST(EditorFiles, the_repository_holds_what_is_printed) {
  EXPECT_EQ(file_text("policies/lib/fence.lua"), lua_annotations());
  EXPECT_EQ(file_text("policies/.luarc.json"), luarc());
  EXPECT_EQ(file_text("policies/.luacheckrc"), luacheckrc());
  EXPECT_EQ(file_text("docs/policy-api.md"), reference_page());
}

TEST(EditorFiles, annotations_name_what_a_policy_names) {
  const std::string text = lua_annotations();
  EXPECT_NE(text.find("---@class Pod\n"), std::string::npos);
  EXPECT_NE(text.find("---@field deletion_timestamp? integer"), std::string::npos);
  EXPECT_NE(text.find("---@param reason string\n---@param options? DeleteOptions\n---@return "
                      "Verdict\n---@nodiscard\n"
                      "function fence.delete_pod(reason, options) end\n"),
            std::string::npos);
  EXPECT_NE(text.find("function case(case) end"), std::string::npos);
}

TEST(EditorFiles, the_language_server_gets_valid_json) {
  const auto file = nlohmann::json::parse(luarc());
  EXPECT_EQ(file["runtime"]["version"], "Lua 5.4");
  EXPECT_EQ(file["runtime"]["builtin"]["io"], "disable");
}

// No line of the page's tables may have more cells than its head.
TEST(EditorFiles, the_page_escapes_bars) {
  const std::string page = reference_page();
  EXPECT_NE(page.find("`\"hold\"\\|\"delete\"`"), std::string::npos);
  EXPECT_NE(page.find("| `siblings` |"), std::string::npos);
}

}  // namespace
}  // namespace moonfence::policy
