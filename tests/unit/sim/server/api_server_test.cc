#include "sim/server/api_server.h"

#include "unit/sim/server_fixture.h"

namespace moonfence::sim {
namespace {

using port::Method;

struct ApiServerTest : ServerFixture {};

TEST_F(ApiServerTest, lagging_cache_shows_the_past_and_the_store_the_present) {
  server->set_mood({.cache_lag = 1s});
  create("a");
  EXPECT_EQ(Json::parse(ask(std::string(kPods)).body)["items"].size(), 1U);
  EXPECT_EQ(Json::parse(ask(std::string(kPods) + "?resourceVersion=0").body)["items"].size(), 0U);
  EXPECT_EQ(ask(std::string(kPods) + "/a?resourceVersion=0").status, 404);
  test::run_for(loop, 1s);
  EXPECT_EQ(Json::parse(ask(std::string(kPods) + "?resourceVersion=0").body)["items"].size(), 1U);
}

TEST_F(ApiServerTest, fresh_enough_read_waits_for_the_cache) {
  server->set_mood({.cache_lag = 1s});
  create("a");
  const std::string wish =
      std::string(kPods) +
      "?resourceVersionMatch=NotOlderThan&resourceVersion=" + std::to_string(store.version());
  const ServerAnswer answer = ask(wish);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.took, 1s);
  EXPECT_EQ(Json::parse(answer.body)["items"].size(), 1U);
}

TEST_F(ApiServerTest, fresh_enough_read_gives_up_after_three_seconds) {
  server->set_mood({.cache_lag = 10s});
  create("a");
  const ServerAnswer answer =
      ask(std::string(kPods) + "?resourceVersion=" + std::to_string(store.version()));
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(answer.took, 3s);
}

TEST_F(ApiServerTest, caches_can_share_their_versions) {
  restart_with({.shared_versions = true});
  create("n1", Json::object(), "nodes");
  EXPECT_EQ(ask(std::string(kPods) + "?resourceVersion=" + std::to_string(store.version())).status,
            200);
}

TEST_F(ApiServerTest, server_that_has_too_much_to_do_says_when_to_return) {
  server->set_mood({.too_many = 1});
  const ServerAnswer answer = ask(kPods);
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.headers,
              testing::Contains(testing::Field(&port::Header::name, "retry-after")));
  EXPECT_EQ(ask("/livez").status, 200);
}

TEST_F(ApiServerTest, internal_error_commits_nothing) {
  create("a");
  server->set_mood({.internal = 1});
  EXPECT_EQ(send(Method::Delete, std::string(kPods) + "/a", Json::object()).status, 500);
  EXPECT_NE(store.find({"pods", "db", "a"}), nullptr);
}

TEST_F(ApiServerTest, lost_answer_tells_the_checkers_the_truth) {
  create("a");
  server->set_mood({.internal_after_commit = 1});
  const ServerAnswer answer = send(Method::Delete, std::string(kPods) + "/a", Json::object());
  EXPECT_GE(answer.status, 500);
  ASSERT_TRUE(answer.committed);
  EXPECT_EQ(answer.committed->type, ChangeType::Deleted);
  EXPECT_EQ(store.find({"pods", "db", "a"}), nullptr);
}

TEST_F(ApiServerTest, committed_says_who_did_what) {
  const ServerAnswer made = send(Method::Post, kPods, {{"metadata", {{"name", "a"}}}});
  ASSERT_TRUE(made.committed);
  EXPECT_EQ(made.committed->actor, "admin");
  EXPECT_EQ(made.committed->key.name, "a");
  EXPECT_FALSE(send(Method::Post, kPods, {{"metadata", {{"name", "a"}}}}).committed);
  EXPECT_FALSE(ask(kPods).committed);
}

TEST_F(ApiServerTest, token_of_one_server_is_good_at_another) {
  create("a");
  create("b");
  ApiServer other(loop, store, random, [this] { return now(); }, {});
  const std::string token =
      Json::parse(ask(std::string(kPods) + "?limit=1").body)["metadata"]["continue"];
  create("c");
  const ServerAnswer rest =
      other.handle({.target = std::string(kPods) + "?limit=5&continue=" + token}, nullptr);
  EXPECT_EQ(Json::parse(rest.body)["items"].size(), 1U);
}

TEST_F(ApiServerTest, pages_cross_namespaces) {
  create("b");
  (void)store.create("pods", "aa", {{"metadata", {{"name", "z"}}}}, "test");
  const Json first = Json::parse(ask("/api/v1/pods?limit=1").body);
  EXPECT_EQ(first["items"][0]["metadata"]["name"], "z");
  const Json second = Json::parse(
      ask("/api/v1/pods?continue=" + first["metadata"]["continue"].get<std::string>()).body);
  EXPECT_EQ(second["items"].size(), 1U);
  EXPECT_EQ(second["items"][0]["metadata"]["name"], "b");
}

TEST_F(ApiServerTest, strategic_patch_deletes_from_lists) {
  (void)store.create("pods", "db",
                     {{"metadata", {{"name", "a"}, {"finalizers", {"x", "y"}}}},
                      {"status", {{"conditions", {{{"type", "A"}}, {{"type", "B"}}}}}}},
                     "test");
  const std::string type = "application/strategic-merge-patch+json";
  const Json one =
      Json::parse(send(Method::Patch, std::string(kPods) + "/a",
                       {{"metadata", {{"$deleteFromPrimitiveList/finalizers", {"x"}}}}}, type)
                      .body);
  EXPECT_EQ(one["metadata"]["finalizers"], Json({"y"}));
  const Json two = Json::parse(
      send(Method::Patch, std::string(kPods) + "/a/status",
           {{"status", {{"conditions", {{{"$patch", "delete"}, {"type", "A"}}}}}}}, type)
          .body);
  EXPECT_EQ(two["status"]["conditions"], Json::array({{{"type", "B"}}}));
}

TEST_F(ApiServerTest, encoded_targets_are_decoded) {
  create("a", {{"k", "v w"}});
  EXPECT_EQ(Json::parse(ask(std::string(kPods) + "?fieldSelector=metadata.name%3Da").body)["items"]
                .size(),
            1U);
  EXPECT_EQ(ask("/api/v1/namespaces/db/pods/%61").status, 200);
}

TEST_F(ApiServerTest, date_is_that_of_the_servers_clock) {
  const ServerAnswer answer = ask("/livez");
  const auto date = std::find_if(answer.headers.begin(), answer.headers.end(),
                                 [](const port::Header& each) { return each.name == "date"; });
  ASSERT_NE(date, answer.headers.end());
  EXPECT_EQ(date->value, "Fri, 15 Jan 2027 08:00:00 GMT");
}

}  // namespace
}  // namespace moonfence::sim
