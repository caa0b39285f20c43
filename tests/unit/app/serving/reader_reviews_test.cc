#include "app/serving/reader_reviews.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "unit/kube/wire_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using Standing = ReaderVerdict::Standing;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kTokens = "/prefix/apis/authentication.k8s.io/v1/tokenreviews";
constexpr const char* kAccesses = "/prefix/apis/authorization.k8s.io/v1/subjectaccessreviews";
constexpr const char* kKnown =
    R"({"status":{"authenticated":true,"user":{"username":"sam","uid":"u-1","groups":["g1","g2"],"extra":{"scope":["a","b"]}}}})";
constexpr const char* kUnknown = R"({"status":{"authenticated":false,"error":"bad token"}})";

struct ReaderReviewsTest : kube::WireTest {
  ReaderReviews reviews{loop, caller, log};

  ReaderReviewsTest() {
    token_is(kKnown);
    access_is(R"({"status":{"allowed":true}})");
  }
  void token_is(const std::string& body) {
    http.on(port::Method::Post, kTokens, FakeAnswer{.status = 201, .body = body});
  }
  void access_is(const std::string& body) {
    http.on(port::Method::Post, kAccesses, FakeAnswer{.status = 201, .body = body});
  }
  ReaderVerdict ask(const std::string& token = "t1", const std::string& path = "/metrics") {
    std::optional<ReaderVerdict> verdict;
    reviews.ask(ReaderToken(token), path,
                [&verdict](const ReaderVerdict& given) { verdict = given; });
    EXPECT_TRUE(test::run_until(loop, [&verdict] { return verdict.has_value(); }));
    return verdict.value_or(ReaderVerdict{});
  }
  std::size_t token_reviews() { return http.count("tokenreviews"); }
};

TEST_F(ReaderReviewsTest, who_is_known_and_allowed_is_let_in) {
  EXPECT_EQ(ask(), (ReaderVerdict{.standing = Standing::Allowed, .user = "sam"}));
  ASSERT_EQ(http.requests.size(), 2U);
  for (const FakeRequest& request : http.requests) {
    EXPECT_EQ(request.lane, port::Lane::Guests) << "neither deletions nor lists wait for a guest";
  }
  const auto token = nlohmann::json::parse(http.requests[0].body);
  EXPECT_EQ(token["spec"], nlohmann::json({{"token", "t1"}}));
  const auto access = nlohmann::json::parse(http.requests[1].body);
  EXPECT_EQ(access["spec"],
            nlohmann::json({{"user", "sam"},
                            {"uid", "u-1"},
                            {"groups", {"g1", "g2"}},
                            {"extra", {{"scope", {"a", "b"}}}},
                            {"nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}}}}));
}

TEST_F(ReaderReviewsTest, strangers_and_those_without_the_right_are_not) {
  access_is(R"({"status":{"allowed":false}})");
  EXPECT_EQ(ask(), (ReaderVerdict{.standing = Standing::NotAllowed, .user = "sam"}));
  access_is(R"({"status":{"allowed":true,"denied":true}})");
  EXPECT_EQ(ask("t2").standing, Standing::NotAllowed);
  token_is(kUnknown);
  EXPECT_EQ(ask("t3"), (ReaderVerdict{.standing = Standing::Stranger}));
  EXPECT_EQ(http.count("subjectaccessreviews"), 2U);
}

TEST_F(ReaderReviewsTest, an_error_lets_nobody_in_and_is_not_remembered) {
  const std::vector<FakeAnswer> errors = {
      FakeAnswer::refused(),
      FakeAnswer::lost(),
      status(403, "Forbidden"),
      status(500, "InternalError"),
      {.status = 201, .body = "{}x"},
      {.status = 201, .body = R"({"status":{"authenticated":"yes"}})"},
      {.status = 201, .body = R"({"status":{"authenticated":true}})"},
      {.status = 201, .body = R"({"status":{"authenticated":true,"user":{"username":""}}})"}};
  for (const FakeAnswer& error : errors) {
    http.on(port::Method::Post, kTokens, error);
    EXPECT_EQ(ask().standing, Standing::Undecidable) << error.body;
  }
  token_is(kKnown);
  for (const FakeAnswer& error :
       {FakeAnswer::lost(), status(403, "Forbidden"),
        FakeAnswer{.status = 201, .body = R"({"status":{"allowed":1}})"}}) {
    http.on(port::Method::Post, kAccesses, error);
    EXPECT_EQ(ask().standing, Standing::Undecidable) << error.body;
  }
  EXPECT_EQ(reviews.remembered(), 0U);
  access_is(R"({"status":{"allowed":true}})");
  EXPECT_EQ(ask().standing, Standing::Allowed);
}

TEST_F(ReaderReviewsTest, what_lacks_its_fields_allows_nothing) {
  token_is("{}");
  EXPECT_EQ(ask().standing, Standing::Stranger);
  token_is(kKnown);
  access_is("{}");
  EXPECT_EQ(ask("t2").standing, Standing::NotAllowed);
}

TEST_F(ReaderReviewsTest, a_right_that_is_taken_ends_within_a_minute) {
  EXPECT_EQ(ask().standing, Standing::Allowed);
  access_is(R"({"status":{"allowed":false}})");
  test::run_for(loop, ReaderReviews::kAllowedFor - ReaderReviews::kAskedAhead - 1s);
  EXPECT_EQ(ask().standing, Standing::Allowed);
  EXPECT_EQ(token_reviews(), 1U);
  test::run_for(loop, ReaderReviews::kAskedAhead + 1s);
  EXPECT_EQ(ask().standing, Standing::NotAllowed);
  access_is(R"({"status":{"allowed":true}})");
  EXPECT_EQ(ask().standing, Standing::NotAllowed);
  test::run_for(loop, ReaderReviews::kRefusedFor);
  EXPECT_EQ(ask().standing, Standing::Allowed);
}

TEST_F(ReaderReviewsTest, each_path_is_a_right_of_its_own) {
  EXPECT_EQ(ask("t1", "/metrics").standing, Standing::Allowed);
  access_is(R"({"status":{"allowed":false}})");
  EXPECT_EQ(ask("t1", "/status").standing, Standing::NotAllowed);
  EXPECT_EQ(ask("t1", "/metrics").standing, Standing::Allowed);
}

TEST_F(ReaderReviewsTest, one_token_that_many_show_at_once_is_asked_about_once) {
  int answered = 0;
  for (int i = 0; i < 50; ++i) {
    reviews.ask(ReaderToken("t1"), "/metrics", [&answered](const ReaderVerdict& verdict) {
      answered += verdict.standing == Standing::Allowed ? 1 : 0;
    });
  }
  EXPECT_TRUE(test::run_until(loop, [&answered] { return answered == 50; }));
  EXPECT_EQ(token_reviews(), 1U);
}

TEST_F(ReaderReviewsTest, a_flood_of_tokens_is_bounded_in_every_way) {
  http.on(port::Method::Post, kTokens, FakeAnswer::silent());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    reviews.ask(ReaderToken("t" + std::to_string(i)), "/metrics",
                [&refused](const ReaderVerdict& verdict) {
                  refused += verdict.standing == Standing::Undecidable ? 1 : 0;
                });
  }
  EXPECT_EQ(refused, 1000 - ReaderReviews::kQuestions);
  test::run_for(loop, 1s);
  EXPECT_EQ(http.open_exchanges(), ReaderReviews::kAtOnce);
  EXPECT_TRUE(test::run_until(loop, [&refused] { return refused == 1000; }));  // by their timeouts
}

TEST_F(ReaderReviewsTest, the_api_server_is_asked_at_a_bounded_pace) {
  token_is(kUnknown);
  const Moment began = loop.now();
  int answered = 0;
  for (std::size_t i = 0; i < ReaderReviews::kQuestions; ++i) {
    reviews.ask(ReaderToken("t" + std::to_string(i)), "/metrics",
                [&answered](const ReaderVerdict& /*verdict*/) { ++answered; });
  }
  EXPECT_TRUE(test::run_until(
      loop, [&answered] { return answered == static_cast<int>(ReaderReviews::kQuestions); }));
  const auto beyond = static_cast<int>(ReaderReviews::kQuestions) - ReaderReviews::kBurst;
  EXPECT_GE(loop.now() - began, ReaderReviews::kPace * (beyond - 1));
}

TEST_F(ReaderReviewsTest, strangers_do_not_push_out_whoever_is_let_in) {
  const std::size_t good = ReaderReviews::kRemembered / 2;
  token_is(kKnown);
  for (std::size_t i = 0; i < good; ++i) {
    EXPECT_EQ(ask("good" + std::to_string(i)).standing, Standing::Allowed);
  }
  token_is(kUnknown);
  for (std::size_t i = 0; i < ReaderReviews::kRemembered; ++i) {
    EXPECT_EQ(ask("bad" + std::to_string(i)).standing, Standing::Stranger);
  }
  EXPECT_EQ(reviews.remembered(), ReaderReviews::kRemembered);
  // From memory, or else the API server would call them strangers.
  http.on(port::Method::Post, kTokens, FakeAnswer::lost());
  for (std::size_t i = 0; i < good; ++i) {
    EXPECT_EQ(ask("good" + std::to_string(i)).standing, Standing::Allowed) << i;
  }
}

TEST_F(ReaderReviewsTest, who_was_let_in_stays_so_while_the_api_server_says_nothing) {
  EXPECT_EQ(ask().standing, Standing::Allowed);
  http.on(port::Method::Post, kTokens, FakeAnswer::refused());
  test::run_for(loop, ReaderReviews::kAllowedFor + 1s);
  EXPECT_EQ(ask(), (ReaderVerdict{.standing = Standing::Allowed, .user = "sam"}));
  EXPECT_EQ(ask("t2").standing, Standing::Undecidable) << "nobody new";
  EXPECT_EQ(ask("t1", "/status").standing, Standing::Undecidable) << "and nothing new";
  test::run_for(loop, ReaderReviews::kAllowedBlind - 10s);
  EXPECT_EQ(ask().standing, Standing::Allowed);
  test::run_for(loop, 20s);
  EXPECT_EQ(ask().standing, Standing::Undecidable);
}

TEST_F(ReaderReviewsTest, a_no_ends_it_also_when_the_api_server_says_nothing_more) {
  EXPECT_EQ(ask().standing, Standing::Allowed);
  test::run_for(loop, ReaderReviews::kAllowedFor + 1s);
  token_is(kUnknown);
  EXPECT_EQ(ask().standing, Standing::Stranger);
  http.on(port::Method::Post, kTokens, FakeAnswer::refused());
  test::run_for(loop, ReaderReviews::kRefusedFor + 1s);
  EXPECT_EQ(ask().standing, Standing::Undecidable);
}

TEST_F(ReaderReviewsTest, who_was_let_in_is_asked_about_ahead_of_time_and_waits_for_nothing) {
  EXPECT_EQ(ask().standing, Standing::Allowed);
  test::run_for(loop, ReaderReviews::kAllowedFor - 1s);
  bool at_once = false;
  reviews.ask(ReaderToken("t1"), "/metrics", [&at_once](const ReaderVerdict& verdict) {
    at_once = verdict.standing == Standing::Allowed;
  });
  EXPECT_TRUE(at_once);
  test::run_for(loop, 2s);
  EXPECT_EQ(token_reviews(), 2U);
  EXPECT_EQ(ask().standing, Standing::Allowed);
  EXPECT_EQ(token_reviews(), 2U) << "what was asked ahead counts";
}

TEST_F(ReaderReviewsTest, a_flood_of_strangers_does_not_shut_out_whoever_was_let_in) {
  EXPECT_EQ(ask("good").standing, Standing::Allowed);
  test::run_for(loop, ReaderReviews::kAllowedFor + 1s);
  http.on(port::Method::Post, kTokens, [](const FakeRequest& request) {
    return request.body.find("good") == std::string::npos
               ? FakeAnswer::silent()
               : FakeAnswer{.status = 201, .body = kKnown};
  });
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    reviews.ask(ReaderToken("bad" + std::to_string(i)), "/metrics",
                [&refused](const ReaderVerdict& /*verdict*/) { ++refused; });
  }
  EXPECT_EQ(refused, 1000 - ReaderReviews::kQuestions);
  const Moment began = loop.now();
  EXPECT_EQ(ask("good").standing, Standing::Allowed);
  EXPECT_LT(loop.now() - began, 1s) << "of the loop's time: before all that wait";
}

TEST_F(ReaderReviewsTest, questions_for_which_nobody_waits_any_more_are_not_asked) {
  http.on(port::Method::Post, kTokens, FakeAnswer::silent());
  std::size_t answered = 0;
  for (std::size_t i = 0; i < ReaderReviews::kQuestions; ++i) {
    reviews.ask(ReaderToken("t" + std::to_string(i)), "/metrics",
                [&answered](const ReaderVerdict& /*verdict*/) { ++answered; });
  }
  EXPECT_TRUE(test::run_until(loop, [&answered] { return answered == ReaderReviews::kQuestions; }));
  // Four at a time, each by its timeout of 5 s: at 0, 5, 10 s.
  EXPECT_LE(token_reviews(), 4 * ReaderReviews::kAtOnce);
  EXPECT_GE(token_reviews(), 2 * ReaderReviews::kAtOnce);
}

TEST_F(ReaderReviewsTest, the_log_has_no_token_and_tells_a_failure_once) {
  http.on(port::Method::Post, kTokens, status(403, "Forbidden"));
  (void)ask("secret-token-1");
  (void)ask("secret-token-2");
  EXPECT_EQ(log.count("readers_not_reviewed"), 1U);
  token_is(kKnown);
  EXPECT_EQ(ask("secret-token-3").standing, Standing::Allowed);
  http.on(port::Method::Post, kTokens, status(403, "Forbidden"));
  (void)ask("secret-token-4");
  EXPECT_EQ(log.count("readers_not_reviewed"), 1U) << "one answer between does not end it";
  test::run_for(loop, ReaderReviews::kQuiet);
  (void)ask("secret-token-5");
  EXPECT_EQ(log.count("readers_not_reviewed"), 2U);
  EXPECT_EQ(log.count("secret-token"), 0U);
}

}  // namespace
}  // namespace moonfence::app
