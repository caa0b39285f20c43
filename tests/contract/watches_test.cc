// WATCH: where it starts, what it tells, how it ends.

#include "contract/fixture.h"

namespace moonfence::contract {
namespace {

struct Watches : Contract {
  std::unique_ptr<Watch> watch(const std::string& query,
                               const std::string& resource = "configmaps") {
    return api->watch(in(resource) + "?watch=1&" + query);
  }
  // Without the ConfigMap that real controllers put into each namespace.
  static constexpr const char* kOurs = "labelSelector=app%3Dx&";
  Json ours(const std::string& name, const Json& data = {{"k", "v"}}) {
    return config_map(name, {{"app", "x"}}, data);
  }
};

TEST_F(Watches, from_a_version_tells_what_came_after_it) {
  ours("a");
  const std::string version = version_of(ours("b"));
  const Json c = ours("c");
  const auto events = watch(kOurs + ("resourceVersion=" + version));
  const auto first = events->next(5s);
  EXPECT_EQ(told(first), "ADDED c");
  EXPECT_EQ(first->at("object"), c);
  patch(in("configmaps", "a"), {{"data", {{"k", "w"}}}});
  const auto second = events->next(5s);
  EXPECT_EQ(told(second), "MODIFIED a");
  EXPECT_EQ(second->at("object")["data"]["k"], "w");
  EXPECT_EQ(second->at("object")["kind"], "ConfigMap");
  remove(in("configmaps", "b"));
  const auto third = events->next(5s);
  EXPECT_EQ(told(third), "DELETED b");
  EXPECT_TRUE(is_later(version_of(third->at("object")), version_of(second->at("object"))))
      << "a deletion has a version of its own";
  EXPECT_EQ(told(events->next(300ms)), "none");
}

TEST_F(Watches, without_a_version_begins_with_everything) {
  ours("a");
  for (const char* start : {"", "resourceVersion=0"}) {
    api->pass(200ms);
    const auto events = watch(std::string(kOurs) + start);
    EXPECT_EQ(told(events->next(5s)), "ADDED a");
    EXPECT_EQ(told(events->next(300ms)), "none");
  }
}

TEST_F(Watches, selector_turns_changes_into_comings_and_goings) {
  const std::string version = now();
  const auto events = watch("labelSelector=in%3Dyes&resourceVersion=" + version);
  const Json plain = config_map("a");
  EXPECT_EQ(told(events->next(300ms)), "none");
  patch(in("configmaps", "a"), {{"metadata", {{"labels", {{"in", "yes"}}}}}});
  EXPECT_EQ(told(events->next(5s)), "ADDED a");
  patch(in("configmaps", "a"), {{"data", {{"k", "w"}}}});
  EXPECT_EQ(told(events->next(5s)), "MODIFIED a");
  const Json out =
      patch(in("configmaps", "a"), {{"metadata", {{"labels", nullptr}}}, {"data", {{"k", "x"}}}})
          .body;
  const auto gone = events->next(5s);
  EXPECT_EQ(told(gone), "DELETED a");
  EXPECT_EQ(gone->at("object")["data"]["k"], "w") << "as it was when it was last selected";
  EXPECT_EQ(version_of(gone->at("object")), version_of(out));
  remove(in("configmaps", "a"));
  EXPECT_EQ(told(events->next(300ms)), "none");
}

TEST_F(Watches, field_selector_follows_one_object) {
  const std::string version = now();
  ours("a");
  ours("b");
  const auto events = watch("fieldSelector=metadata.name%3Db&resourceVersion=" + version);
  EXPECT_EQ(told(events->next(5s)), "ADDED b");
  EXPECT_EQ(told(events->next(300ms)), "none");
}

TEST_F(Watches, pods_of_one_node_are_followed) {
  const Json first = pod("first");
  const auto events = api->watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D" + space +
                                 "&resourceVersion=" + version_of(first));
  pod("p", {{"spec", {{"nodeName", space}}}});
  EXPECT_EQ(told(events->next(5s)), "ADDED p");
}

TEST_F(Watches, forced_delete_of_a_pod_is_told_twice) {
  const Json made = pod("p");
  const auto events = watch("resourceVersion=" + version_of(made), "pods");
  remove(in("pods", "p"), {{"gracePeriodSeconds", 0}, {"preconditions", {{"uid", uid_of(made)}}}});
  const auto marked = events->next(5s);
  EXPECT_EQ(told(marked), "MODIFIED p");
  EXPECT_EQ(marked->at("object")["metadata"]["deletionGracePeriodSeconds"], 0);
  EXPECT_EQ(told(events->next(5s)), "DELETED p");
}

TEST_F(Watches, last_finalizer_is_told_as_deletion_only) {
  ours("a");
  patch(in("configmaps", "a"), {{"metadata", {{"finalizers", {"example.com/keep"}}}}});
  remove(in("configmaps", "a"));
  const auto events = watch(kOurs + ("resourceVersion=" + now()));
  patch(in("configmaps", "a"), {{"metadata", {{"finalizers", nullptr}}}});
  const auto gone = events->next(5s);
  EXPECT_EQ(told(gone), "DELETED a");
  EXPECT_EQ(gone->at("object")["metadata"]["finalizers"], Json({"example.com/keep"}));
}

TEST_F(Watches, forgotten_version_is_an_error_event) {
  const auto events = watch("resourceVersion=1");
  const auto event = events->next(5s);
  ASSERT_EQ(told(event), "ERROR");
  const Json& status = event->at("object");
  EXPECT_EQ(status["kind"], "Status");
  EXPECT_EQ(status["code"], 410);
  EXPECT_EQ(status["reason"], "Expired");
  EXPECT_THAT(status["message"].get<std::string>(),
              testing::HasSubstr("too old resource version: 1 ("));
  EXPECT_TRUE(events->ended(5s));
}

TEST_F(Watches, version_of_the_future_is_silent) {
  const auto events = watch(std::string(kOurs) + "resourceVersion=99999999&timeoutSeconds=1");
  ours("a");
  EXPECT_EQ(told(events->next(3s)), "none");
  EXPECT_TRUE(events->ended(5s));
}

TEST_F(Watches, ends_after_its_timeout) {
  const auto events = watch(kOurs + ("timeoutSeconds=3&resourceVersion=" + now()));
  EXPECT_FALSE(events->ended(500ms));
  EXPECT_TRUE(events->ended(10s));
}

TEST_F(Watches, bookmark_precedes_the_end) {
  const std::string version = now();
  const auto events =
      watch(kOurs + ("timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion=" + version));
  const std::string made = version_of(config_map("other"));
  const auto bookmark = events->next(8s);
  ASSERT_EQ(told(bookmark), "BOOKMARK");
  const Json& object = bookmark->at("object");
  EXPECT_EQ(object["kind"], "ConfigMap");
  EXPECT_FALSE(is_later(made, version_of(object))) << "it covers what was not selected";
  EXPECT_TRUE(events->ended(8s));
}

TEST_F(Watches, no_bookmark_unless_asked_for) {
  const auto events = watch(kOurs + ("timeoutSeconds=4&resourceVersion=" + now()));
  config_map("other");
  EXPECT_EQ(told(events->next(8s)), "none");
  EXPECT_TRUE(events->ended(1s));
}

TEST_F(Watches, match_is_forbidden) {
  const Reply reply =
      get(in("configmaps") +
          "?watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&resourceVersion=" + now());
  expect_refusal(reply, 422, "Invalid", "resourceVersionMatch is forbidden for watch");
}

TEST_F(Watches, list_in_a_watch_ends_with_a_bookmark) {
  const Json a = ours("a");
  const auto events = watch(std::string(kOurs) +
                            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
                            "allowWatchBookmarks=true");
  EXPECT_EQ(told(events->next(5s)), "ADDED a");
  const auto mark = events->next(5s);
  ASSERT_TRUE(mark && mark->at("type") == "BOOKMARK");
  const Json& about = mark->at("object")["metadata"];
  EXPECT_EQ(about["annotations"]["k8s.io/initial-events-end"], "true");
  EXPECT_FALSE(is_later(version_of(a), about["resourceVersion"].get<std::string>()));
}

TEST_F(Watches, nonsense_version_is_500) {
  expect_refusal(get(in("configmaps") + "?watch=1&timeoutSeconds=1&resourceVersion=abc"), 500, "",
                 "resourceVersion: Invalid value: \"abc\"");
}

TEST_F(Watches, flag_is_read_as_kubernetes_reads_flags) {
  EXPECT_EQ(get(in("configmaps") + "?watch=false").body["kind"], "ConfigMapList");
  EXPECT_EQ(get(in("configmaps") + "?watch=0").body["kind"], "ConfigMapList");
  const auto events =
      api->watch(in("configmaps") + "?watch=true&timeoutSeconds=1&resourceVersion=" + now());
  EXPECT_TRUE(events->ended(5s));
}

}  // namespace
}  // namespace moonfence::contract
