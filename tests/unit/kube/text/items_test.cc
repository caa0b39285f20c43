#include "kube/text/items.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

struct Outcome {
  std::vector<std::string> items;
  Result<ListMeta> meta;
};

Outcome read_in_pieces(const std::string& text, std::size_t piece) {
  ItemSplitter splitter(1000);
  std::vector<std::string> items;
  for (std::size_t i = 0; i < text.size(); i += piece) {
    if (auto taken = splitter.append(text.substr(i, piece)); !taken) {
      return {items, failure(taken.error())};
    }
    while (auto item = splitter.next()) {
      items.push_back(*item);
    }
  }
  return {items, splitter.finish()};
}

Error::Kind fault_of(const std::string& text) {
  const Outcome outcome = read_in_pieces(text, 7);
  EXPECT_FALSE(outcome.meta) << text;
  return outcome.meta ? Error::Kind::Cancelled : outcome.meta.error().kind;
}

TEST(ItemSplitter, any_cutting_gives_the_same_items) {
  const std::string text =
      R"( {"kind":"PodList","metadata":{"items":[1],"resourceVersion":"9","continue":"c"},)"
      R"( "items" : [ {"a":"]}\"{ü"} , {"items":[{"x":[]}]},{}],"z":{"items":[{}]}} )";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const Outcome outcome = read_in_pieces(text, piece);
    ASSERT_TRUE(outcome.meta) << outcome.meta.error().text;
    EXPECT_EQ(outcome.items,
              (std::vector<std::string>{R"({"a":"]}\"{ü"})", R"({"items":[{"x":[]}]})", "{}"}));
    EXPECT_EQ(outcome.meta->resource_version.text(), "9");
    EXPECT_EQ(outcome.meta->continue_token, "c");
  }
}

TEST(ItemSplitter, null_and_empty_items_are_empty_lists) {
  EXPECT_TRUE(read_in_pieces(R"({"kind":"NodeList","metadata":null,"items":null})", 3).meta);
  EXPECT_TRUE(read_in_pieces(R"({"items":[],"kind":"NodeList"})", 3).meta);
}

TEST(ItemSplitter, the_version_is_that_of_the_collection) {
  const auto meta =
      read_in_pieces(
          R"({"kind":"NodeList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"resourceVersion":"900"}}]})",
          9)
          .meta;
  EXPECT_EQ(meta->resource_version.text(), "5");
}

TEST(ItemSplitter, a_list_cut_anywhere_does_not_count) {
  const std::string text = R"({"kind":"PodList","metadata":{},"items":[{"a":1},{"b":2}]})";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(fault_of(text.substr(0, length)), Error::Kind::Retryable) << length;
  }
}

TEST(ItemSplitter, foreign_bodies_are_refused) {
  EXPECT_EQ(fault_of("<html></html>"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"Table","rows":[]})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"Table","items":[]})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"PodList"})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"PodList","items":5})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"PodList","items":[]}{})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"PodList","items":[],"items":[]})"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of("[]"), Error::Kind::Malformed);
  EXPECT_EQ(fault_of(R"({"kind":"Status","code":410,"reason":"Expired"})"), Error::Kind::Gone);
}

TEST(ItemSplitter, items_are_objects_separated_by_commas) {
  for (const std::string items : {"{}{}", "{},", ",", "{},,{}", "1", "\"a\"", "[{}]", "null"}) {
    EXPECT_EQ(fault_of(R"({"kind":"PodList","items":[)" + items + "]}"), Error::Kind::Malformed)
        << items;
  }
}

TEST(ItemSplitter, an_item_beyond_the_limit_is_refused) {
  EXPECT_EQ(fault_of(R"({"kind":"PodList","items":[{"a":")" + std::string(1000, 'x')),
            Error::Kind::Limit);
  EXPECT_EQ(fault_of(R"({"a":")" + std::string(2U << 20U, 'x')), Error::Kind::Limit);
}

}  // namespace
}  // namespace moonfence::kube
