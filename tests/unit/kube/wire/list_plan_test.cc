#include "kube/wire/list_plan.h"

#include <gtest/gtest.h>

#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

using Step = ListPlan::Step;

ListMeta page(std::string token) {
  return {.kind = "NodeList",
          .resource_version = ResourceVersion("5"),
          .continue_token = std::move(token)};
}
Error expired() {
  return {.kind = Error::Kind::Gone, .text = "410"};
}

TEST(ListPlan, pages_follow_the_token_whatever_they_hold) {
  ListPlan plan = ListPlan::consistent();
  EXPECT_EQ(encoded_query(plan.query()), "limit=500");
  EXPECT_EQ(*plan.on_page(page("a")), Step::Page);
  EXPECT_EQ(encoded_query(plan.query()), "limit=500&continue=a");
  EXPECT_EQ(*plan.on_page(page("b")), Step::Page);
  EXPECT_EQ(*plan.on_page(page("")), Step::Done);
}

TEST(ListPlan, a_known_version_is_read_unpaged_from_the_cache) {
  EXPECT_EQ(encoded_query(ListPlan::not_older_than(ResourceVersion("7")).query()),
            "resourceVersion=7&resourceVersionMatch=NotOlderThan");
}

TEST(ListPlan, an_expired_token_means_one_full_list) {
  ListPlan plan = ListPlan::consistent();
  (void)plan.on_page(page("a"));
  EXPECT_EQ(plan.on_error(expired()), Step::Restart);
  EXPECT_EQ(encoded_query(plan.query()), "");
  EXPECT_EQ(plan.on_error(expired()), Step::Failed);
}

TEST(ListPlan, a_version_the_server_lacks_is_given_up) {
  ListPlan old = ListPlan::not_older_than(ResourceVersion("7"));
  EXPECT_EQ(old.on_error(expired()), Step::Restart);
  EXPECT_TRUE(old.is_consistent());
  EXPECT_EQ(encoded_query(old.query()), "limit=500");
  ListPlan ahead = ListPlan::not_older_than(ResourceVersion("7"));
  EXPECT_EQ(ahead.on_error({.kind = Error::Kind::Retryable,
                            .text = "",
                            .http_status = 504,
                            .reason = "ResourceVersionTooLarge"}),
            Step::Restart);
}

TEST(ListPlan, a_list_that_turns_in_circles_is_refused) {
  ListPlan plan = ListPlan::consistent();
  (void)plan.on_page(page("a"));
  EXPECT_FALSE(plan.on_page(page("a")));
}

TEST(CompareVersions, orders_decimal_numbers_of_any_length) {
  const auto order = [](const char* a, const char* b) {
    return compare_versions(ResourceVersion(a), ResourceVersion(b));
  };
  EXPECT_EQ(order("9", "10"), std::strong_ordering::less);
  EXPECT_EQ(order("123456789012345678901234567890", "99"), std::strong_ordering::greater);
  EXPECT_EQ(order("7", "7"), std::strong_ordering::equal);
  for (const char* odd : {"", "01", "x", "-1", "1a"}) {
    EXPECT_EQ(order(odd, "1"), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace moonfence::kube
