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
