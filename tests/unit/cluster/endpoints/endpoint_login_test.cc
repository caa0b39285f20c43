// How services other than ours want to be logged in to, and their tokens to be shown.

#include "cluster/endpoints/endpoint_login.h"

#include "unit/cluster/endpoints/endpoint_fixture.h"

namespace moonfence::cluster {
namespace {

TEST_F(EndpointTest, a_token_is_shown_as_the_service_wants_it) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  rules.auth = EndpointRules::Auth::Bearer;
  rules.token_file = "/secret/token";
  rules.token_prefix = "PVEAPIToken=";
  rules.headers = {{"X-Version", "2.16"}};
  files.write("/secret/token", "root@pam!x=1-2\n");
  use(rules);
  ASSERT_TRUE(get());
  EXPECT_EQ(tokens_used().back(), "PVEAPIToken=root@pam!x=1-2");
  EXPECT_EQ(http.requests.back().header("X-Version"), "2.16");
}

// Keystone: a nested body with the secret in it, the token in one header and sent in another.
TEST_F(EndpointTest, a_login_with_a_body_of_its_own_at_another_service) {
  EndpointRules rules = login_rules();
  rules.login.url = "http://keystone:5000";
  rules.login.path = "/v3/auth/tokens";
  rules.login.body = {
      {"auth", {{"methods", {"x"}}, {"id", "{username}"}, {"secret", "{password}"}}}};
  rules.login.token_header = "X-Subject-Token";
  rules.token_header = "X-Auth-Token";
  rules.token_prefix = "";
  rules.headers = {{"X-Version", "2.16"}};
  files.write("/secret/password", R"(s"3\cret)");
  use(rules);
  http.on(
      port::Method::Post, "/v3/auth/tokens",
      FakeAnswer{.status = 201,
                 .body = "{}",
                 .headers = {{"content-type", "application/json"}, {"x-subject-token", "gAAA"}}});
  ASSERT_TRUE(get());
  const FakeRequest& login = http.requests.front();
  EXPECT_EQ(noted.urls.at(0), "http://keystone:5000/v3/auth/tokens");
  EXPECT_EQ(noted.urls.at(1), "http://vendor:5705/api/v2/nodes");
  EXPECT_EQ(login.body, R"({"auth":{"id":"moon","methods":["x"],"secret":"s\"3\\cret"}})");
  EXPECT_EQ(login.header("X-Version"), "") << "it is for the endpoint";
  EXPECT_EQ(http.requests.back().header("X-Auth-Token"), "gAAA");
  EXPECT_EQ(http.requests.back().header("Authorization"), "");
}

// OAuth 2.0: client credentials in a form.
TEST_F(EndpointTest, a_login_by_a_form) {
  EndpointRules rules = login_rules();
  rules.login.send = LoginRules::Send::Form;
  rules.login.body = {{"grant_type", "client_credentials"}, {"client_secret", "{password}"}};
  rules.login.token_header.clear();
  rules.login.expires_header.clear();
  rules.login.token_field = "access_token";
  rules.login.expires_field = "expires_in";
  files.write("/secret/password", "a&b=c d+e%");
  use(rules);
  http.on(port::Method::Post, "/api/login",
          FakeAnswer{.body = R"({"access_token":"eyJ","expires_in":"10"})"});
  ASSERT_TRUE(get());
  const FakeRequest& login = http.requests.front();
  EXPECT_EQ(login.body, "client_secret=a%26b%3Dc%20d%2Be%25&grant_type=client_credentials");
  EXPECT_EQ(login.header("Content-Type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(tokens_used().back(), "Bearer eyJ");
  test::run_for(loop, 11s);
  ASSERT_TRUE(get());
  EXPECT_EQ(http.count("POST /api/login"), 2U) << "seconds may be a text";
}

// vSphere: user and password in a header, the token is the whole answer.
TEST_F(EndpointTest, a_login_by_basic_whose_answer_is_the_token) {
  EndpointRules rules = login_rules();
  rules.login.send = LoginRules::Send::Basic;
  rules.login.token_header.clear();
  rules.login.expires_header.clear();
  rules.login.token_field = ".";
  rules.token_header = "vmware-api-session-id";
  rules.token_prefix = "";
  use(rules);
  http.on(port::Method::Post, "/api/login", FakeAnswer{.status = 201, .body = R"("b00-1")"});
  ASSERT_TRUE(get());
  EXPECT_EQ(http.requests.front().header("Authorization"), "Basic bW9vbjpzM2NyZXQ=");
  EXPECT_EQ(http.requests.front().body, "");
  EXPECT_EQ(http.requests.back().header("vmware-api-session-id"), "b00-1");
  EXPECT_EQ(http.requests.back().header("Authorization"), "");
}

TEST_F(EndpointTest, an_answer_that_is_no_text_is_no_token) {
  EndpointRules rules = login_rules();
  rules.login.token_header.clear();
  rules.login.token_field = ".";
  for (const char* body : {"{}", "[]", "null", "7", R"("")", R"("a b")", R"("a\nb")", "b00", ""}) {
    use(rules);
    http.on(port::Method::Post, "/api/login", FakeAnswer{.body = body});
    EXPECT_FALSE(get()) << body;
    EXPECT_EQ(http.count("GET"), 0U) << body;
    endpoints.reset();
  }
}

// A cloud's metadata server: nothing is shown but a header that browsers cannot send.
TEST_F(EndpointTest, a_token_for_the_asking) {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  rules.auth = EndpointRules::Auth::Login;
  rules.login.url = "http://metadata.internal";
  rules.login.path = "/token";
  rules.login.send = LoginRules::Send::Nothing;
  rules.login.headers = {{"Metadata-Flavor", "Google"}};
  rules.login.token_field = "access_token";
  use(rules);
  http.on(port::Method::Get, "/token", FakeAnswer{.body = R"({"access_token":"ya29"})"});
  ASSERT_TRUE(get());
  EXPECT_EQ(noted.urls.at(0), "http://metadata.internal/token");
  EXPECT_EQ(http.requests.front().header("Metadata-Flavor"), "Google");
  EXPECT_EQ(http.requests.front().header("Authorization"), "");
  EXPECT_EQ(tokens_used().back(), "Bearer ya29");
}

// A login server that is down says nothing about the password.
TEST_F(EndpointTest, a_login_that_fails_keeps_what_it_failed_for) {
  using Why = EndpointFailure::Why;
  const auto why = [this](FakeAnswer answer) {
    EndpointRules rules = login_rules();
    rules.timeout = 2s;
    use(rules);
    http.on(port::Method::Post, "/api/login", std::move(answer));
    const auto failed = get();
    const auto again = get();
    EXPECT_FALSE(failed || again);
    EXPECT_EQ(failed.error().why, again.error().why) << "in the pause after it";
    EXPECT_EQ(failed.error().error.reason, "");
    EXPECT_EQ(failed.error().error.kind == Error::Kind::Unauthorized,
              failed.error().why == Why::Unauthorized);
    EXPECT_EQ(post().starts_with(kind(Error::Kind::Unauthorized)),
              failed.error().why == Why::Unauthorized)
        << post();
    endpoints.reset();
    return failed.error().why;
  };
  for (const int status : {400, 401, 403}) {
    EXPECT_EQ(why(FakeAnswer{.status = status, .body = "{}"}), Why::Unauthorized) << status;
  }
  for (const int status : {302, 404, 429, 500, 503}) {
    EXPECT_EQ(why(FakeAnswer{.status = status, .body = "{}"}), Why::Status) << status;
  }
  EXPECT_EQ(why(FakeAnswer::refused()), Why::Unreachable);
  EXPECT_EQ(why(FakeAnswer::silent()), Why::Timeout);
  EXPECT_EQ(why(FakeAnswer{.body = "{}"}), Why::NotJson) << "it has no token";
  files.remove("/secret/password");
  EXPECT_EQ(why(FakeAnswer{.body = "{}"}), Why::Unauthorized);
}

// A user who may log in and nothing else would log in with each request.
TEST_F(EndpointTest, a_token_that_is_refused_young_does_not_bring_a_login_with_each_request) {
  use(login_rules());
  serve_logins();
  http.on(port::Method::Get, "/api/v2/nodes", FakeAnswer{.status = 401, .body = "{}"});
  for (int i = 0; i < 60; ++i) {
    const auto answer = get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().error.http_status, 401);
    test::run_for(loop, 500ms);
  }
  // At 0, 1, 3, 7 and 15 s.
  EXPECT_EQ(logins, 5);
  http.on(port::Method::Get, "/api/v2/nodes", FakeAnswer{.body = "[]"});
  ASSERT_TRUE(get());
  test::run_for(loop, 2min);
  http.on(port::Method::Get, "/api/v2/nodes", [](const FakeRequest& request) {
    return request.header("Authorization") == "Bearer token-5"
               ? FakeAnswer{.status = 401, .body = "{}"}
               : FakeAnswer{.body = "[]"};
  });
  ASSERT_TRUE(get()) << "an old one that is refused is renewed at once";
  EXPECT_EQ(logins, 6);
}

}  // namespace
}  // namespace moonfence::cluster
