#include "app/fencer_check/list_pages.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct ListPagesTest : testing::Test {
  std::vector<Result<json>> pages;  // in order; the last one stays
  std::vector<std::string> tokens;  // that were asked for
  std::vector<int> taken;

  [[nodiscard]] Result<void> read() {
    std::size_t next = 0;
    return each_item(
        [&, next](const std::string&, const kube::Query& query) mutable {
          EXPECT_EQ(query.front().first, "limit");
          tokens.push_back(query.size() > 1 ? query.back().second : "");
          return pages.at(std::min(next++, pages.size() - 1));
        },
        "/api/v1/nodes", {}, "nodes",
        [this](const json& item) -> Result<void> {
          if (!item.is_number()) {
            return failure(Error::Kind::Malformed, "no number");
          }
          taken.push_back(item.get<int>());
          return {};
        });
  }
  static json page(const json& items, const json& token = nullptr) {
    return {{"items", items}, {"metadata", {{"continue", token}}}};
  }
};

TEST_F(ListPagesTest, every_page_is_read) {
  pages = {page({1, 2}, "a"), page(json::array(), "b"), page({3})};
  EXPECT_TRUE(read());
  EXPECT_THAT(taken, ElementsAre(1, 2, 3));
  EXPECT_THAT(tokens, ElementsAre("", "a", "b"));
}

TEST_F(ListPagesTest, a_slow_list_begins_anew_as_long_as_there_is_anything_new_in_it) {
  const Error gone = {.kind = Error::Kind::Gone, .text = "too old", .http_status = 410};
  std::set<int> seen;
  std::vector<Result<json>> answers = {page({1}, "a"),      tl::unexpected(gone), page({1}, "b"),
                                       page({2}, "c"),      tl::unexpected(gone), page({1}, "d"),
                                       tl::unexpected(gone)};
  std::size_t next = 0;
  const auto read_slowly = [&] {
    return each_item_slowly(
        [&](const std::string&, const kube::Query&) { return answers.at(next++); }, "/api/v1/nodes",
        "nodes",
        [&seen](const json& item) -> Result<void> {
          seen.insert(item.get<int>());
          return {};
        },
        [&seen] { return seen.size(); });
  };
  const auto given_up = read_slowly();
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().kind, Error::Kind::Gone);
  EXPECT_EQ(next, 7U);
  EXPECT_THAT(seen, ElementsAre(1, 2));
  answers = {page({3}, "a"), tl::unexpected(gone), page({3, 4})};
  next = 0;
  EXPECT_TRUE(read_slowly());
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST_F(ListPagesTest, an_answer_that_is_no_list_is_one_clear_error) {
  for (const json& nonsense :
       {json(), json(7), json("x"), json::array(), json::object(), json{{"items", nullptr}},
        json{{"items", {{"a", 1}}}}, json{{"items", "x"}}}) {
    pages = {nonsense};
    const auto done = read();
    ASSERT_FALSE(done) << nonsense;
    EXPECT_EQ(done.error().text, "the API server's list of nodes has no items");
  }
  pages = {page({1}, 7)};
  EXPECT_THAT(read().error().text, HasSubstr("does not say how it goes on"));
}

TEST_F(ListPagesTest, a_list_that_never_ends_is_given_up) {
  pages = {page({1}, "a")};
  EXPECT_THAT(read().error().text, HasSubstr("does not end"));
  EXPECT_THAT(tokens, ElementsAre("", "a"));
}

TEST_F(ListPagesTest, an_error_ends_it) {
  pages = {page({1}, "a"), failure(Error::Kind::Gone, "expired")};
  EXPECT_EQ(read().error().kind, Error::Kind::Gone);
  EXPECT_THAT(taken, ElementsAre(1));
  pages = {page({1, "x", 2})};
  EXPECT_EQ(read().error().text, "no number");
}

}  // namespace
}  // namespace moonfence::app
