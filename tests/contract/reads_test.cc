// GET and LIST: pages, versions, selectors.

#include "contract/fixture.h"

namespace moonfence::contract {
namespace {

using Names = std::vector<std::string>;

struct Reads : Contract {
  void SetUp() override {
    Contract::SetUp();
    for (int i = 0; i < 5; ++i) {
      config_map("c" + std::to_string(i), {{"app", "x"}, {"n", std::to_string(i)}});
    }
    before = version_of(get(in("configmaps", "c4")).body);
    // A real namespace gets one more ConfigMap from its controllers, some time.
  }
  Json page(const std::string& query) {
    const Reply reply = get(in("configmaps") + "?labelSelector=app%3Dx&" + query);
    EXPECT_EQ(reply.status, 200) << query << ": " << reply.text;
    return reply.body;
  }
  Reply refused(const std::string& query) { return get(in("configmaps") + "?" + query); }
  Names selected(const std::string& labels) {
    return names_of(page("").is_object() ? get(in("configmaps") + "?labelSelector=" + labels).body
                                         : Json());
  }
  std::string before;
};

TEST_F(Reads, list_is_typed_and_its_items_are_not) {
  const Json list = page("");
  EXPECT_EQ(list["kind"], "ConfigMapList");
  EXPECT_EQ(list["apiVersion"], "v1");
  EXPECT_EQ(names_of(list), (Names{"c0", "c1", "c2", "c3", "c4"}));
  EXPECT_FALSE(list["items"][0].contains("kind"));
  EXPECT_FALSE(is_later(before, version_of(list)));
}

TEST_F(Reads, empty_list_has_items) {
  const Json list = get(in("pods")).body;
  EXPECT_EQ(list["kind"], "PodList");
  EXPECT_EQ(list["items"], Json::array());
}

TEST_F(Reads, pages_are_one_picture) {
  const Json first = page("limit=2");
  EXPECT_EQ(names_of(first), (Names{"c0", "c1"}));
  const std::string token = first["metadata"]["continue"];
  EXPECT_FALSE(first["metadata"].contains("remainingItemCount")) << "a selector forbids it";
  remove(in("configmaps", "c2"));
  config_map("c25", {{"app", "x"}});
  patch(in("configmaps", "c3"), {{"data", {{"k", "new"}}}});
  const Json second = page("limit=2&continue=" + token);
  EXPECT_EQ(names_of(second), (Names{"c2", "c3"}));
  EXPECT_EQ(second["items"][1]["data"]["k"], "v");
  EXPECT_EQ(version_of(second), version_of(first));
  const Json third = page("limit=2&continue=" + second["metadata"]["continue"].get<std::string>());
  EXPECT_EQ(names_of(third), (Names{"c4"}));
}

TEST_F(Reads, page_without_selector_counts_the_rest) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(post(leases(), {{"metadata", {{"name", name}}}}).status, 201);
  }
  const Json list = get(leases() + "?limit=1").body;
  EXPECT_EQ(names_of(list), (Names{"a"}));
  EXPECT_EQ(list["metadata"]["remainingItemCount"], 2);
}

TEST_F(Reads, last_page_has_no_token) {
  EXPECT_FALSE(page("limit=500")["metadata"].contains("continue"));
}

TEST_F(Reads, token_and_version_exclude_each_other) {
  const std::string token = page("limit=2")["metadata"]["continue"];
  expect_refusal(refused("limit=2&resourceVersion=" + before + "&continue=" + token), 400,
                 "BadRequest", "specifying resource version is not allowed when using continue");
  expect_refusal(refused("resourceVersionMatch=Exact&resourceVersion=1&continue=" + token), 422,
                 "Invalid", "resourceVersionMatch is forbidden when continue is provided");
}

TEST_F(Reads, token_that_is_none_is_400) {
  expect_refusal(refused("continue=bad"), 400, "BadRequest", "invalid continue token");
}

// A server may have a snapshot of what the storage has forgotten.
TEST_F(Reads, compacted_token_is_410_or_shows_the_past) {
  const std::string token = page("limit=2")["metadata"]["continue"];
  config_map("later", {{"app", "x"}});
  ASSERT_TRUE(api->compact()) << "set MOONFENCE_CONTRACT_ETCD";
  const Reply reply = refused("labelSelector=app%3Dx&limit=9&continue=" + token);
  if (reply.status == 200) {
    EXPECT_EQ(names_of(reply.body), (Names{"c2", "c3", "c4"}));
  } else {
    expect_refusal(
        reply, 410, "Expired",
        "The provided continue parameter is too old to display a consistent list result");
  }
}

TEST_F(Reads, compacted_version_is_410) {
  config_map("later");
  ASSERT_TRUE(api->compact()) << "set MOONFENCE_CONTRACT_ETCD";
  expect_refusal(refused("resourceVersionMatch=Exact&resourceVersion=1"), 410, "Expired",
                 "The resourceVersion for the provided list is too old.");
}

TEST_F(Reads, exact_version_shows_the_past) {
  remove(in("configmaps", "c0"));
  const Json then = page("resourceVersionMatch=Exact&resourceVersion=" + before);
  EXPECT_EQ(names_of(then), (Names{"c0", "c1", "c2", "c3", "c4"}));
  EXPECT_EQ(version_of(then), before);
  EXPECT_EQ(names_of(page("limit=2&resourceVersion=" + before)), (Names{"c0", "c1"}))
      << "a limit makes a version exact";
}

TEST_F(Reads, not_older_than_is_at_least_that_new) {
  const std::string version = version_of(config_map("c5", {{"app", "x"}}));
  const Json list = page("resourceVersionMatch=NotOlderThan&resourceVersion=" + version);
  EXPECT_EQ(names_of(list), (Names{"c0", "c1", "c2", "c3", "c4", "c5"}));
  EXPECT_FALSE(is_later(version, version_of(list)));
}

TEST_F(Reads, version_zero_ignores_the_limit) {
  api->pass(200ms);
  const Json list = page("resourceVersion=0&limit=1");
  EXPECT_EQ(names_of(list).size(), 5U);
  EXPECT_FALSE(list["metadata"].contains("continue"));
}

TEST_F(Reads, version_of_the_future_is_504_with_a_cause) {
  for (const char* query :
       {"resourceVersion=99999999", "resourceVersion=99999999&resourceVersionMatch=NotOlderThan"}) {
    const Reply reply = refused(query);
    expect_refusal(reply, 504, "Timeout", "Too large resource version: 99999999, current: ");
    EXPECT_EQ(reply.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    EXPECT_EQ(reply.body["details"]["retryAfterSeconds"], 1);
    EXPECT_EQ(reply.header("retry-after"), "1");
  }
  const Reply one = get(in("configmaps", "c0") + "?resourceVersion=99999999");
  expect_refusal(one, 504, "Timeout", "Too large resource version");
}

TEST_F(Reads, version_of_another_resource_is_waited_for) {
  pod("p");
  const std::string version = version_of(config_map("other"));
  const Reply reply =
      get(in("pods") + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + version);
  EXPECT_EQ(reply.status, 200) << reply.text;
  EXPECT_FALSE(is_later(version, version_of(reply.body)));
}

TEST_F(Reads, exact_version_of_the_future_is_504) {
  expect_refusal(refused("resourceVersion=99999999&resourceVersionMatch=Exact"), 504, "Timeout",
                 "Too large resource version: 99999999, current: ");
}

TEST_F(Reads, nonsense_is_refused) {
  expect_refusal(refused("resourceVersion=abc"), 400, "BadRequest",
                 "resourceVersion: Invalid value: \"abc\"");
  expect_refusal(refused("limit=abc"), 400, "BadRequest", "parsing \"abc\": invalid syntax");
  expect_refusal(refused("resourceVersionMatch=Exact"), 422, "Invalid",
                 "resourceVersionMatch is forbidden unless resourceVersion is provided");
  expect_refusal(refused("resourceVersion=0&resourceVersionMatch=Exact"), 422, "Invalid",
                 "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  expect_refusal(refused("resourceVersion=1&resourceVersionMatch=Foo"), 422, "Invalid",
                 "Unsupported value: \"Foo\"");
  EXPECT_EQ(page("limit=-1")["items"].size(), 5U);
}

TEST_F(Reads, label_selectors) {
  EXPECT_EQ(selected("n%3D1"), (Names{"c1"}));
  EXPECT_EQ(selected("app%3D%3Dx,n!%3D1"), (Names{"c0", "c2", "c3", "c4"}));
  EXPECT_EQ(selected("app%20in%20(x,y),n%20notin%20(0,1)"), (Names{"c2", "c3", "c4"}));
  EXPECT_EQ(selected("n,!zz"), (Names{"c0", "c1", "c2", "c3", "c4"}));
  EXPECT_EQ(selected("n,app!%3Dx"), Names{});
  EXPECT_EQ(selected("n%3E3"), (Names{"c4"}));
  EXPECT_EQ(selected("n%3C1"), (Names{"c0"}));
  expect_refusal(refused("labelSelector=a%3D%3D%3Db"), 400, "BadRequest",
                 "unable to parse requirement");
}

TEST_F(Reads, field_selectors) {
  EXPECT_EQ(names_of(get(in("configmaps") + "?fieldSelector=metadata.name%3Dc1").body),
            (Names{"c1"}));
  expect_refusal(refused("fieldSelector=data.k%3Dv"), 400, "BadRequest",
                 "\"data.k\" is not a known field selector: only \"metadata.name\", "
                 "\"metadata.namespace\"");
  expect_refusal(refused("fieldSelector=a"), 400, "BadRequest", "invalid selector: 'a'");
}

TEST_F(Reads, pods_are_selected_by_node_and_phase) {
  pod("p");
  pod("q", {{"spec", {{"nodeName", "contract-other"}}}});
  const auto pods = [this](const std::string& fields) {
    return names_of(
        get("/api/v1/pods?fieldSelector=" + fields + ",metadata.namespace%3D" + space).body);
  };
  EXPECT_EQ(pods("spec.nodeName%3Dcontract-node"), (Names{"p"}));
  EXPECT_EQ(pods("spec.nodeName!%3Dcontract-node"), (Names{"q"}));
  patch(in("pods", "p") + "/status", {{"status", {{"phase", "Running"}}}});
  EXPECT_EQ(pods("status.phase%3DRunning"), (Names{"p"}));
  expect_refusal(get(in("pods") + "?fieldSelector=spec.foo%3Da"), 400, "BadRequest",
                 "field label not supported: spec.foo");
}

}  // namespace
}  // namespace moonfence::contract
