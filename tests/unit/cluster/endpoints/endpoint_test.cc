#include "cluster/endpoints/endpoint.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "unit/cluster/endpoints/endpoint_fixture.h"

namespace moonfence::cluster {
namespace {

TEST_F(EndpointTest, reads_json_below_its_url_on_a_lane_of_its_own) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  use(rules);
  const auto answer = get();
  ASSERT_TRUE(answer) << answer.error().error.message();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ((*answer->body)[0]["name"], "n1");
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].lane, port::Lane::Endpoints);
  EXPECT_EQ(http.requests[0].header("Authorization"), "");
}

TEST_F(EndpointTest, not_found_is_an_answer_and_the_rest_is_not) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  use(rules);
  http.on(port::Method::Get, "/api/gone", FakeAnswer{.status = 404, .body = R"({"error":"x"})"});
  const auto gone = get("/gone");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 404);
  EXPECT_EQ(gone->body, nullptr);
  for (const int status : {301, 302, 400, 403, 429, 500, 503}) {
    http.on(port::Method::Get, "/api/bad",
            FakeAnswer{.status = status,
                       .body = R"({"error":"Bearer echoed"})",
                       .headers = {{"location", "http://vendor:5705/api/v2/nodes"}}});
    const auto bad = get("/bad");
    ASSERT_FALSE(bad) << status;
    EXPECT_EQ(bad.error().error.text, "endpoint vendor: GET /bad: HTTP " + std::to_string(status));
  }
  EXPECT_EQ(http.count("GET /api/v2/nodes"), 0U) << "a redirect was followed";
}

TEST_F(EndpointTest, a_failure_says_why_and_for_how_long_the_same_request_has_failed) {
  using Why = EndpointFailure::Why;
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  rules.timeout = 2s;
  use(rules);
  const auto why = [this](const std::string& path, FakeAnswer answer) {
    http.on(port::Method::Get, "/api" + path, std::move(answer));
    const auto failed = get(path);
    EXPECT_FALSE(failed);
    return failed ? Why::Unconfigured : failed.error().why;
  };
  EXPECT_EQ(why("/a", FakeAnswer{.status = 503}), Why::Status);
  EXPECT_EQ(why("/b", FakeAnswer{.body = "<html>"}), Why::NotJson);
  EXPECT_EQ(why("/c", FakeAnswer::silent()), Why::Timeout);
  EXPECT_EQ(why("/d", FakeAnswer::refused()), Why::Unreachable);
  test::run_for(loop, 5min);
  EXPECT_GE(get("/a").error().since, 5min);
  EXPECT_EQ(why("/e", FakeAnswer{.status = 503}), Why::Status);
  EXPECT_EQ(get("/e").error().since, 0s) << "another request has a row of its own";
  http.on(port::Method::Get, "/api/a", FakeAnswer{.status = 404});
  EXPECT_TRUE(get("/a"));
  EXPECT_EQ(why("/a", FakeAnswer{.status = 503}), Why::Status);
  EXPECT_EQ(get("/a").error().since, 0s) << "an answer ends the row";
  test::run_for(loop, 11min);
  EXPECT_EQ(get("/a").error().since, 0s) << "nobody knows what was meanwhile";
}

TEST_F(EndpointTest, advice_is_passed_on_where_nobody_answered_and_never_of_an_answer) {
  use(login_rules());
  FakeAnswer unknown = FakeAnswer::refused();
  unknown.error->hint = "check tls.ca of the endpoint";
  http.on(port::Method::Post, "/api/login", unknown);
  EXPECT_THAT(get().error().error.message(),
              testing::HasSubstr("connection refused (check tls.ca of the endpoint)"));
  use(EndpointRules{.url = "http://vendor:5705/api"});
  http.on(port::Method::Get, "/api/a", unknown);
  EXPECT_EQ(get("/a").error().error.hint, "check tls.ca of the endpoint");
  http.on(port::Method::Get, "/api/b",
          FakeAnswer{.status = 403,
                     .body = R"({"kind": "Status", "status": "Failure", "reason": "Forbidden",
                                 "message": "u\" cannot get resource \"secret\""})"});
  EXPECT_EQ(get("/b").error().error.message(), "endpoint vendor: GET /b: HTTP 403");
}

TEST_F(EndpointTest, an_answer_that_is_no_json_is_none) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  use(rules);
  for (const std::string body :
       {"<html>secret</html>", "", "[1,", "{\"a\":}",
        R"({"kind": "Status", "status": "Failure", "message": "secret", "reason": "secret"})"}) {
    http.on(port::Method::Get, "/api/odd", FakeAnswer{.body = body});
    const auto odd = get("/odd");
    ASSERT_FALSE(odd) << body;
    EXPECT_EQ(odd.error().error.message().find("secret"), std::string::npos);
    EXPECT_EQ(odd.error().error.reason, "");
  }
}

TEST_F(EndpointTest, a_warning_of_an_endpoint_is_not_logged) {
  use(EndpointRules{.url = "http://vendor:5705/api"});
  http.on(port::Method::Get, "/api/a",
          FakeAnswer{
              .body = "{}",
              .headers = {{"content-type", "application/json"}, {"warning", "299 - \"secret\""}}});
  ASSERT_TRUE(get("/a"));
  EXPECT_TRUE(log.lines.empty());
}

TEST_F(EndpointTest, an_answer_that_is_too_large_or_too_slow_is_none) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  rules.timeout = 2s;
  use(rules);
  http.on(port::Method::Get, "/api/large",
          FakeAnswer{.body = "\"" + std::string(Endpoints::kBodyLimit, 'x') + "\"",
                     .chunk = 1U << 20U});
  const auto large = get("/large");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().error.kind, Error::Kind::Limit);
  http.on(port::Method::Get, "/api/less", FakeAnswer{.body = "\"" + std::string(100, 'x') + "\""});
  std::optional<EndpointResult> less;
  const auto call = endpoints->get(
      "vendor", "/less", [&less](const EndpointResult& answer) { less.emplace(answer); }, 100);
  ASSERT_TRUE(test::run_until(
      loop, [&less] { return less.has_value(); }, 1min));
  EXPECT_FALSE(*less);
  http.on(port::Method::Get, "/api/slow", FakeAnswer::silent());
  const Moment before = loop.now();
  ASSERT_FALSE(get("/slow"));
  EXPECT_EQ(loop.now() - before, 2s);
}

TEST_F(EndpointTest, an_endpoint_that_is_not_configured_is_not_asked) {
  use(EndpointRules{.url = "http://vendor:5705/api"});
  const auto answer = get("/v2/nodes", "other");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().error.text, "endpoint other is not configured");
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(EndpointTest, basic_and_bearer_come_from_files_as_they_are_now) {
  EndpointRules basic = login_rules();
  basic.auth = EndpointRules::Auth::Basic;
  use(basic);
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Basic bW9vbjpzM2NyZXQ=");
  endpoints.reset();

  EndpointRules bearer = login_rules();
  bearer.auth = EndpointRules::Auth::Bearer;
  bearer.token_file = "/secret/token";
  files.write("/secret/token", "first\n");
  use(bearer);
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Bearer first");
  files.write("/secret/token", "second");
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Bearer second");
  files.write("/secret/token", "two\nlines");
  ASSERT_FALSE(get()) << "a header cannot hold a line break";
  files.remove("/secret/token");
  ASSERT_FALSE(get());
  EXPECT_FALSE(told("second"));
}

TEST_F(EndpointTest, logs_in_once_for_all_that_wait) {
  use(login_rules());
  serve_logins();
  int answered = 0;
  std::vector<kube::CallHandle> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(endpoints->get("vendor", "/v2/nodes", [&](const auto& answer) {
      EXPECT_TRUE(answer) << answer.error().error.message();
      ++answered;
    }));
  }
  ASSERT_TRUE(test::run_until(
      loop, [&] { return answered == 5; }, 1min));
  EXPECT_EQ(logins, 1);
  EXPECT_EQ(tokens_used(), std::vector<std::string>(5, "Bearer token-1"));
  const FakeRequest& login = http.requests.front();
  EXPECT_EQ(login.line(), "POST /api/login");
  EXPECT_EQ(login.body, R"({"password":"s3cret","username":"moon"})");
  EXPECT_EQ(login.lane, port::Lane::Endpoints);
}

TEST_F(EndpointTest, takes_the_token_and_its_life_from_the_body) {
  EndpointRules rules = login_rules();
  rules.login.token_header.clear();
  rules.login.expires_header.clear();
  rules.login.token_field = "session.token";
  rules.login.expires_field = "session.expiresInSeconds";
  use(rules);
  http.on(port::Method::Post, "/api/login", [this](const FakeRequest&) {
    ++logins;
    return FakeAnswer{.body = R"({"session":{"token":"deep","expiresInSeconds":10}})"};
  });
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Bearer deep");
  test::run_for(loop, 11s);
  ASSERT_TRUE(get());
  EXPECT_EQ(logins, 2);
}

TEST_F(EndpointTest, renews_a_token_before_it_ends_while_the_old_one_serves) {
  use(login_rules());
  serve_logins("100");
  ASSERT_TRUE(get());
  test::run_for(loop, 79s);
  ASSERT_TRUE(get());
  EXPECT_EQ(logins, 1);
  test::run_for(loop, 2s);
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Bearer token-1") << "nobody waits for the renewal";
  test::run_for(loop, 1s);
  EXPECT_EQ(logins, 2);
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "Bearer token-2");
}

TEST_F(EndpointTest, so_31_after_a_401_it_logs_in_anew_with_files_read_anew) {
  use(login_rules());
  serve_logins();
  ASSERT_TRUE(get());
  files.write("/secret/password", "rotated");
  http.on(port::Method::Get, "/api/v2/nodes", [](const FakeRequest& request) {
    return request.header("Authorization") == "Bearer token-1"
               ? FakeAnswer{.status = 401, .body = "{}"}
               : FakeAnswer{.body = "[]"};
  });
  test::run_for(loop, 1s);
  ASSERT_TRUE(get());
  EXPECT_EQ(logins, 2);
  EXPECT_EQ(http.count("POST /api/login"), 2U);
  EXPECT_EQ(tokens_used().back(), "Bearer token-2");
  bool rotated = false;
  for (const FakeRequest& request : http.requests) {
    rotated = rotated || request.body.find("rotated") != std::string::npos;
  }
  EXPECT_TRUE(rotated);
  EXPECT_FALSE(told("rotated") || told("token-"));
}

TEST_F(EndpointTest, a_401_after_a_new_login_is_the_end) {
  use(login_rules());
  serve_logins();
  ASSERT_TRUE(get());
  test::run_for(loop, 1s);
  http.on(port::Method::Get, "/api/v2/nodes", FakeAnswer{.status = 401, .body = "{}"});
  const auto answer = get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().error.http_status, 401);
  EXPECT_EQ(logins, 2) << "once per request";
  EXPECT_EQ(http.count("GET /api/v2/nodes"), 3U);
}

TEST_F(EndpointTest, a_login_that_fails_is_told_once_and_repeated_after_a_pause) {
  use(login_rules());
  http.on(port::Method::Post, "/api/login",
          FakeAnswer{.status = 401, .body = R"({"error":"s3cret is wrong"})"});
  for (int i = 0; i < 10; ++i) {
    const auto answer = get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().error.kind, Error::Kind::Unauthorized);
    EXPECT_EQ(answer.error().error.message().find("s3cret"), std::string::npos);
    test::run_for(loop, 500ms);
  }
  // After 1 s, 2 s, 4 s: at 0, 1 and 3 s.
  EXPECT_EQ(http.count("POST /api/login"), 3U);
  EXPECT_EQ(http.count("GET"), 0U);
  EXPECT_EQ(log.count("endpoint_login_failed"), 1U);
  EXPECT_FALSE(told("s3cret"));
  serve_logins();
  test::run_for(loop, 4s);
  ASSERT_TRUE(get());
  EXPECT_EQ(log.count("endpoint_login_recovered"), 1U);
}

TEST_F(EndpointTest, a_login_without_a_token_is_a_failure) {
  use(login_rules());
  http.on(port::Method::Post, "/api/login", FakeAnswer{.body = "{}"});
  const auto answer = get();
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().error.text.find("no token in its header Authorization"),
            std::string::npos)
      << answer.error().error.text;
}

TEST_F(EndpointTest, a_login_that_never_answers_ends_with_the_request) {
  EndpointRules rules = login_rules();
  rules.timeout = 2s;
  use(rules);
  http.on(port::Method::Post, "/api/login", FakeAnswer::silent());
  const Moment before = loop.now();
  ASSERT_FALSE(get());
  EXPECT_EQ(loop.now() - before, 2s);
}

TEST_F(EndpointTest, sends_nothing_to_whom_it_cannot_recognise) {
  EndpointRules rules = login_rules();
  rules.url = "https://vendor:5705/api";
  rules.ca_file = "/secret/ca.crt";
  use(rules);
  serve_logins();
  const auto answer = get();
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().error.text.find("/secret/ca.crt"), std::string::npos)
      << answer.error().error.text;
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(EndpointTest, a_call_that_is_dropped_hears_nothing) {
  use(login_rules());
  serve_logins();
  bool called = false;
  auto call = endpoints->get("vendor", "/v2/nodes", [&](const auto&) { called = true; });
  loop.turn();
  call.reset();
  test::run_for(loop, 10s);
  EXPECT_FALSE(called);
}

TEST(TokenOf, is_strict_about_what_a_token_is) {
  LoginRules rules;
  rules.token_header = "X-Token";
  const auto with = [&rules](const std::string& value) {
    return token_of(rules, port::HttpHead{.status = 200, .headers = {{"x-token", value}}}, "");
  };
  EXPECT_EQ(with("abc")->text, "abc");
  EXPECT_EQ(with("bearer abc")->text, "abc");
  EXPECT_EQ(with("abc")->lifetime, 5min);
  EXPECT_FALSE(with(""));
  EXPECT_FALSE(with("a b"));
  EXPECT_FALSE(with("a\x01"));
  EXPECT_FALSE(with(std::string(20000, 'a')));
  rules.expires_header = "X-Life";
  for (const auto& [life, lasts] : std::vector<std::pair<std::string, Duration>>{
           {"60", 1min}, {"0", 5min}, {"-1", 5min}, {"soon", 5min}, {"99999999", 24h}}) {
    const auto token = token_of(
        rules, port::HttpHead{.status = 200, .headers = {{"x-token", "a"}, {"x-life", life}}}, "");
    EXPECT_EQ(token->lifetime, lasts) << life;
  }
}

TEST_F(EndpointTest, an_order_is_sent_as_json_and_2xx_is_enough) {
  serve_logins();
  use(login_rules());
  for (const FakeAnswer& answer :
       {FakeAnswer{.status = 204, .body = ""}, FakeAnswer{.status = 200, .body = "<html>"},
        FakeAnswer{.status = 202, .body = "{}"}}) {
    http.on(port::Method::Post, "/api/off", answer);
    EXPECT_EQ(post(), "done");
  }
  const FakeRequest& sent = http.requests.back();
  EXPECT_EQ(sent.body, R"({"a":1})");
  EXPECT_EQ(sent.header("Content-Type"), "application/json");
  EXPECT_EQ(sent.header("Authorization"), "Bearer token-1");
}

TEST_F(EndpointTest, of_an_order_that_failed_nobody_repeats_the_endpoint_s_words) {
  serve_logins();
  use(login_rules());
  http.on(port::Method::Post, "/api/off", FakeAnswer{.status = 400, .body = "s3cret"});
  EXPECT_TRUE(post().starts_with(kind(Error::Kind::Invalid))) << post();
  EXPECT_EQ(post().find("s3cret"), std::string::npos);
  // It may have been done.
  for (const FakeAnswer& answer : {FakeAnswer{.status = 503, .body = "busy"}, FakeAnswer::lost()}) {
    http.on(port::Method::Post, "/api/off", answer);
    EXPECT_TRUE(post().starts_with(kind(Error::Kind::Unknown))) << post();
  }
  EXPECT_NE(post("/off", 5s, "nobody").find("endpoint nobody is not configured"),
            std::string::npos);
}

TEST_F(EndpointTest, an_order_ends_with_its_own_limit_and_asks_before_it_leaves) {
  use({.url = "http://vendor:5705/api", .timeout = 1min});
  http.on(port::Method::Post, "/api/off", FakeAnswer{.status = 204, .body = "", .delay = 30s});
  const Moment began = loop.now();
  EXPECT_TRUE(post("/off", 3s).starts_with(kind(Error::Kind::Unknown)));
  EXPECT_EQ(loop.now() - began, 3s);
  may_send = [] { return false; };
  const std::size_t sent = http.requests.size();
  EXPECT_TRUE(post().starts_with(kind(Error::Kind::Cancelled))) << post();
  EXPECT_EQ(http.requests.size(), sent);
}

}  // namespace
}  // namespace moonfence::cluster
