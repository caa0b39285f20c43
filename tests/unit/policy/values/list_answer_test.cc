#include "policy/values/list_answer.h"

#include <gtest/gtest.h>

namespace moonfence::policy {
namespace {

using nlohmann::json;

Request all_pods(bool metadata_only = false) {
  return {.kind = Request::Kind::List,
          .api_version = "v1",
          .resource = "pods",
          .metadata_only = metadata_only};
}

json list_of(std::size_t count) {
  json items = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back({{"metadata", {{"name", std::to_string(i)}}}});
  }
  return {{"kind", "PodList"}, {"metadata", {{"resourceVersion", "1"}}}, {"items", items}};
}

TEST(ListAnswer, a_whole_list_is_one_and_so_is_an_empty_one) {
  EXPECT_EQ(fault_of_list(all_pods(), list_of(kMostListed)), "");
  EXPECT_EQ(fault_of_list(all_pods(), {{"items", nullptr}}), "");
  json last_page = list_of(1);
  last_page["metadata"]["continue"] = "";
  EXPECT_EQ(fault_of_list(all_pods(), last_page), "");
}

TEST(ListAnswer, what_goes_on_or_is_too_long_is_none) {
  const std::string fault =
      "list v1 pods: there are more than 1000 objects; ask for one namespace, by labels, or for "
      "the "
      "metadata alone";
  json first_page = list_of(2);
  first_page["metadata"]["continue"] = "more";
  EXPECT_EQ(fault_of_list(all_pods(), first_page), fault);
  first_page["metadata"]["continue"] = 5;
  EXPECT_EQ(fault_of_list(all_pods(), first_page), fault);
  // Of a server that does not heed the limit.
  EXPECT_EQ(fault_of_list(all_pods(), list_of(kMostListed + 1)), fault);
  EXPECT_EQ(too_large_list(all_pods(true), 512U << 10U),
            "list-metadata v1 pods: the objects are larger than 512 KiB; ask for one namespace, or "
            "by labels");
}

TEST(ListAnswer, what_is_no_list_is_none) {
  for (const json& none : {json(5), json::array(), json::object(), json{{"items", 5}}}) {
    EXPECT_EQ(fault_of_list(all_pods(), none), "list v1 pods: the answer is no list");
  }
}

TEST(ListAnswer, who_asked_for_metadata_is_given_nothing_else) {
  json list = list_of(2);
  EXPECT_EQ(fault_of_list(all_pods(true), list), "");
  list["items"][1]["spec"] = json::object();
  EXPECT_EQ(fault_of_list(all_pods(), list), "");
  EXPECT_EQ(fault_of_list(all_pods(true), list),
            "list-metadata v1 pods: the answer has more than metadata");
}

}  // namespace
}  // namespace moonfence::policy
