#include "app/serving/reader_gate.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/text/base64.h"
#include "os/net/curl_poller.h"
#include "unit/kube/wire_fixture.h"

namespace moonfence::app {
namespace {

using Standing = ReaderVerdict::Standing;
using testing::HasSubstr;

TEST(ReaderGateTest, a_token_is_what_bearer_or_a_password_says) {
  EXPECT_EQ(token_of("Bearer a.b-c_d"), "a.b-c_d");
  EXPECT_EQ(token_of("bearer   abc  "), "abc");
  EXPECT_EQ(token_of("Basic " + kube::base64_encoded("anybody:a.b.c")), "a.b.c");
  EXPECT_EQ(token_of("Basic " + kube::base64_encoded(":abc")), "abc");
}

TEST(ReaderGateTest, anything_else_is_none) {
  const std::string longest(ReaderGate::kLongestToken, 'x');
  EXPECT_TRUE(token_of("Bearer " + longest));
  for (const std::string& text :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("abc"),
        std::string("Digest abc"), std::string("Bearer a b"), std::string("Bearer a\x01"),
        "Bearer x" + longest, std::string("Basic !!!"), "Basic " + kube::base64_encoded("no colon"),
        "Basic " + kube::base64_encoded("name:"), "Basic " + kube::base64_encoded("n:x" + longest),
        "Basic " + kube::base64_encoded(std::string("n:a\0b", 5))}) {
    EXPECT_EQ(token_of(text), std::nullopt) << text.substr(0, 40);
  }
}

TEST(ReaderGateTest, only_who_is_allowed_is_not_refused) {
  EXPECT_EQ(refusal_for({.standing = Standing::Allowed}, "/metrics", "role"), std::nullopt);
  EXPECT_EQ(refusal_for({.standing = Standing::Stranger}, "/metrics", "role")->status, 401);
  EXPECT_EQ(refusal_for({.standing = Standing::NotAllowed}, "/metrics", "role")->status, 403);
  EXPECT_EQ(refusal_for({.standing = Standing::Undecidable}, "/metrics", "role")->status, 503);
  EXPECT_EQ(refusal_for({}, "/metrics", "role")->status, 503);
}

TEST(ReaderGateTest, a_refusal_says_what_is_missing_and_paints_nothing) {
  const auto refusal =
      refusal_for({.standing = Standing::NotAllowed, .user = "sam\n\x1b[31m"}, "/status", "reads");
  EXPECT_THAT(refusal->body, HasSubstr("/status"));
  EXPECT_THAT(refusal->body, HasSubstr("ClusterRole reads"));
  EXPECT_EQ(refusal->body.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(refusal->body.begin(), refusal->body.end(), '\n'), 1);
}

TEST(ReaderGateTest, a_stranger_is_told_both_ways_to_log_in) {
  const auto refusal = refusal_for({.standing = Standing::Stranger}, "/status", "role");
  std::string ways;
  for (const auto& [name, value] : refusal->headers) {
    ways += name == "WWW-Authenticate" ? value.substr(0, value.find(' ')) + ";" : "";
  }
  EXPECT_EQ(ways, "Bearer;Basic;");
}

struct ReaderGatePassTest : kube::WireTest {
  os::CurlPoller own;
  os::Mailbox mailbox{own};
  ReaderReviews reviews{loop, caller, log};
  std::vector<int> told;
  ReaderGate gate{mailbox, reviews, [this](int status) { told.push_back(status); }};
};

TEST_F(ReaderGatePassTest, what_each_reader_was_answered_is_told) {
  mailbox.close();  // nobody answers any more
  const auto stranger = gate.pass({.path = "/metrics", .query = {}}, "/metrics", "role");
  ASSERT_TRUE(stranger);
  EXPECT_EQ(stranger->status, 401);
  const auto undecided = gate.pass({.path = "/metrics", .query = {}, .authorization = "Bearer abc"},
                                   "/metrics", "role");
  ASSERT_TRUE(undecided);
  EXPECT_EQ(undecided->status, 503);
  EXPECT_EQ(told, (std::vector<int>{401, 503}));
}

}  // namespace
}  // namespace moonfence::app
