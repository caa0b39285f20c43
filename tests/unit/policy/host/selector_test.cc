#include "policy/host/selector.h"

#include <gtest/gtest.h>

namespace moonfence::policy {
namespace {

bool matches(std::string_view text, const kube::Labels& labels) {
  const auto selector = LabelSelector::parse(text);
  EXPECT_TRUE(selector) << text;
  return selector && selector->matches(labels);
}

TEST(LabelSelector, decides_as_the_api_server_does) {
  const kube::Labels labels = {{"app", "db"}, {"example.com/tier", "x_1"}, {"empty", ""}};
  EXPECT_TRUE(matches("", labels));
  EXPECT_TRUE(matches("app=db", labels));
  EXPECT_TRUE(matches(" app == db , example.com/tier", labels));
  EXPECT_FALSE(matches("app=DB", labels));
  EXPECT_FALSE(matches("app!=db", labels));
  EXPECT_TRUE(matches("other!=db", labels));
  EXPECT_TRUE(matches("empty=", labels));
  EXPECT_TRUE(matches("app in (web,db)", labels));
  EXPECT_FALSE(matches("other in (web, db)", labels));
  EXPECT_TRUE(matches("other notin (web,db)", labels));
  EXPECT_TRUE(matches("!other,app", labels));
  EXPECT_FALSE(matches("!app", labels));
  EXPECT_FALSE(matches("other", labels));
}

TEST(LabelSelector, labels_are_made_to_match) {
  const auto made = [](const char* text, kube::Labels labels = {}) {
    return LabelSelector::parse(text)->made_to_match(std::move(labels));
  };
  using kube::Labels;
  EXPECT_EQ(made(""), Labels());
  EXPECT_EQ(made("a=b,c,!d,e!=f,g notin (h)"), (Labels{{"a", "b"}, {"c", "any"}}));
  EXPECT_EQ(made("a in (x, y),a!=x"), (Labels{{"a", "y"}}));
  EXPECT_EQ(made("a=b,!d,e!=f", {{"a", "z"}, {"d", ""}, {"e", "f"}, {"k", "v"}}),
            (Labels{{"a", "b"}, {"k", "v"}}));
  EXPECT_EQ(made("a,a!=any"), std::nullopt) << "a label like this would do, but who writes that";
  EXPECT_EQ(made("a,!a"), std::nullopt);
}

TEST(LabelSelector, what_the_api_server_would_refuse_is_refused) {
  for (const char* text :
       {"a in (",   "a in",      "a in b", "a in (b c)", "=b",   "a=b,",    ",a",
        "a=b=c",    "a b",       "-a=b",   "a.",         "a=-b", "a/b/c=d", "/a",
        "Ex.com/a", "a_b.com/c", "a;b",    "a=b)",       "!a=b", "a>1",     "in (b)"}) {
    EXPECT_FALSE(LabelSelector::parse(text)) << text;
  }
  EXPECT_FALSE(LabelSelector::parse(std::string(64, 'a') + "=b"));
  EXPECT_FALSE(LabelSelector::parse(std::string(100'000, 'a')));
}

TEST(LabelSelector, a_refusal_says_why) {
  EXPECT_EQ(LabelSelector::parse("a in (b").error().text,
            "'a in (b' is no label selector: a ')' is missing");
  EXPECT_EQ(LabelSelector::parse("a is b").error().text,
            "'a is b' is no label selector: 'is' is no operator; known are = == != in notin");
}

}  // namespace
}  // namespace moonfence::policy
