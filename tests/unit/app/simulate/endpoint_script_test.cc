#include "app/simulate/endpoint_script.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;

std::string refused(const std::string& text) {
  const auto script = EndpointScript::parse(text, "responses");
  return script ? "" : script.error().text;
}

TEST(EndpointScriptTest, each_answer_holds_from_its_time_on) {
  const auto script = EndpointScript::parse(R"({"http a /x": [
    {"from": "30s", "status": 0}, {"from": "10s", "body": [1]}, {"from": "1m", "status": 404}],
    "http a /y": {"body": {"k": "v"}}})",
                                            "responses");
  ASSERT_TRUE(script) << script.error().text;
  const auto status = [&script](Duration at) {
    const auto* reply = (*script)->reply_to("http a /x", at);
    return reply == nullptr ? -1 : reply->status;
  };
  EXPECT_EQ(status(9s), -1);
  EXPECT_EQ(status(10s), 200);
  EXPECT_EQ(status(59s), 0);
  EXPECT_EQ(status(60s), 404);
  EXPECT_EQ((*script)->reply_to("http a /y", 0s)->body, R"({"k":"v"})");
}

TEST(EndpointScriptTest, an_answer_may_take_long_and_be_no_json) {
  const auto script =
      EndpointScript::parse(R"({"http a /x": {"text": "<html>", "takes": "10s"}})", "responses");
  ASSERT_TRUE(script) << script.error().text;
  const auto* reply = (*script)->reply_to("http a /x", 0s);
  EXPECT_EQ(reply->body, "<html>");
  EXPECT_EQ(reply->takes, 10s);
  EXPECT_NE(refused(R"({"http a /x": {"text": "<html>", "body": 1}})"), "");
  EXPECT_NE(refused(R"({"http a /x": {"takes": 3}})"), "");
}

TEST(EndpointScriptTest, what_nobody_answers_is_remembered) {
  const auto script = EndpointScript::parse(R"({"http a /x": {}})", "responses");
  ASSERT_TRUE(script);
  EXPECT_NE((*script)->reply_to("http a /x", 0s), nullptr);
  EXPECT_EQ((*script)->reply_to("http a /z", 0s), nullptr);
  EXPECT_EQ((*script)->unanswered(), std::set<std::string>{"http a /z"});
}

// A policy of a database operator asks for an object of a kind that no simulated cluster has.
TEST(EndpointScriptTest, objects_of_other_kinds_are_answered_by_their_paths) {
  const auto script = EndpointScript::parse(R"({
    "get example.com/v1 clusters shop/db": [{"body": {"a": 1}}, {"from": "10s", "status": 404}],
    "get example.com/v1 racks r1": {"body": {}},
    "list example.com/v1 clusters shop": {"body": {"items": []}}})",
                                            "responses");
  ASSERT_TRUE(script) << script.error().text;
  const auto request = [&script](const std::string& path) {
    const std::string* found = (*script)->request_of(path);
    return found == nullptr ? std::string() : *found;
  };
  EXPECT_EQ(request("/apis/example.com/v1/namespaces/shop/clusters/db?timeout=5s"),
            "get example.com/v1 clusters shop/db");
  EXPECT_EQ(request("/apis/example.com/v1/racks/r1"), "get example.com/v1 racks r1");
  EXPECT_EQ(request("/apis/example.com/v1/namespaces/shop/clusters?limit=1000"),
            "list example.com/v1 clusters shop");
  EXPECT_EQ(request("/api/v1/nodes/n1"), "");
  const auto* gone = (*script)->reply_to("get example.com/v1 clusters shop/db", 10s);
  EXPECT_NE(gone->body.find(R"("reason":"NotFound")"), std::string::npos) << gone->body;
}

TEST(EndpointScriptTest, what_the_simulated_cluster_has_is_not_answered_for_it) {
  EXPECT_EQ(refused(R"({"get v1 nodes n1": {"body": {}}})"),
            "responses: get v1 nodes n1: the simulated cluster has nodes");
  EXPECT_EQ(refused(R"({"get example.com/v1 clusters": {"body": {}}})"),
            "responses: get example.com/v1 clusters: this names no object and no list");
  EXPECT_EQ(
      refused(R"({"list example.com/v1 clusters shop labels: a": {"body": {}}})"),
      "responses: list example.com/v1 clusters shop labels: a: this names no object and no list");
  EXPECT_NE(refused(R"({"get example.com/v1 clusters shop/..": {"body": {}}})"), "");
}

TEST(EndpointScriptTest, what_is_wrong_is_named_with_its_place) {
  EXPECT_EQ(refused(""), "");
  EXPECT_EQ(refused("[]"), "responses: not an object");
  EXPECT_NE(refused("{"), "");
  EXPECT_EQ(refused(R"({"http a /x": 3})"), "responses: http a /x: an answer is an object");
  EXPECT_EQ(refused(R"({"http a /x": {"staus": 200}})"),
            "responses: http a /x: unknown key 'staus' (did you mean 'status'?)");
  EXPECT_NE(refused(R"({"http a /x": {"status": "200"}})"), "");
  EXPECT_NE(refused(R"({"http a /x": {"from": 3}})"), "");
  EXPECT_NE(refused(R"({"http a /x": {"from": "soon"}})"), "");
}

}  // namespace
}  // namespace moonfence::app
