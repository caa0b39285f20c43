#pragma once

// An endpoint "vendor" over a fake network, and what its logins give.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cluster/endpoints/endpoint.h"
#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"

namespace moonfence::cluster {

using namespace std::chrono_literals;
using test::FakeAnswer;
using test::FakeRequest;

inline EndpointRules login_rules() {
  EndpointRules rules;
  rules.url = "http://vendor:5705/api";
  rules.auth = EndpointRules::Auth::Login;
  rules.username_file = "/secret/username";
  rules.password_file = "/secret/password";
  rules.login.path = "/login";
  rules.login.token_header = "Authorization";
  rules.login.expires_header = "Authorization-Expires-Seconds";
  return rules;
}

// Notes where each request goes, and who signs it.
class NotedHttp final : public port::Http {
 public:
  explicit NotedHttp(port::Http& http) : http_(http) {}
  std::unique_ptr<port::Transfer> start(port::HttpRequest request, port::HttpSink& sink) override {
    urls.push_back(request.url);
    if (const auto& aws = request.aws) {
      signatures.push_back(aws->region + " " + aws->service + " " + aws->access_key + " " +
                           aws->secret_key);
    }
    return http_.start(std::move(request), sink);
  }
  void use_tls(port::TlsSettings settings) override { http_.use_tls(std::move(settings)); }
  void drop_connections() override { http_.drop_connections(); }

  std::vector<std::string> urls;
  std::vector<std::string> signatures;

 private:
  port::Http& http_;
};

struct EndpointTest : testing::Test {
  EndpointTest() {
    files.write("/secret/username", "moon\n");
    files.write("/secret/password", "s3cret\n");
    http.on(port::Method::Get, "/api/v2/nodes", FakeAnswer{.body = R"([{"name":"n1"}])"});
  }

  void use(EndpointRules rules) {
    endpoints.emplace(Endpoints::Surroundings{loop, noted, files, log, "moonfence/1"},
                      EndpointTable{{"vendor", std::move(rules)}});
  }
  // Logins give "token-1", "token-2", … good for `seconds`.
  void serve_logins(const std::string& seconds = "300") {
    http.on(port::Method::Post, "/api/login", [this, seconds](const FakeRequest&) {
      ++logins;
      return FakeAnswer{.body = "{}",
                        .headers = {{"content-type", "application/json"},
                                    {"authorization", "Bearer token-" + std::to_string(logins)},
                                    {"authorization-expires-seconds", seconds}}};
    });
  }
  EndpointResult get(const std::string& path = "/v2/nodes", const std::string& name = "vendor") {
    std::optional<EndpointResult> got;
    const auto call =
        endpoints->get(name, path, [&got](const EndpointResult& answer) { got.emplace(answer); });
    EXPECT_FALSE(got.has_value()) << "answered inside get()";
    if (!test::run_until(
            loop, [&got] { return got.has_value(); }, 1min)) {
      return tl::unexpected<EndpointFailure>(EndpointFailure{.error = {.text = "never called"}});
    }
    return *got;
  }
  // What comes of an order: "done", or its kind and words.
  std::string post(const std::string& path = "/off", Duration limit = 5s,
                   const std::string& name = "vendor") {
    std::optional<std::string> got;
    const auto call = endpoints->post(
        name, {.path = path, .body = R"({"a":1})", .limit = limit, .may_send = may_send},
        [&got](const Result<void>& accepted) {
          got = accepted ? "done"
                         : std::to_string(static_cast<int>(accepted.error().kind)) + " " +
                               accepted.error().message();
        });
    EXPECT_FALSE(got.has_value()) << "answered inside post()";
    (void)test::run_until(
        loop, [&got] { return got.has_value(); }, 1min);
    return got.value_or("never called");
  }
  static std::string kind(Error::Kind kind) { return std::to_string(static_cast<int>(kind)) + " "; }
  [[nodiscard]] std::vector<std::string> tokens_used() const {
    std::vector<std::string> used;
    for (const FakeRequest& request : http.requests) {
      if (request.method == port::Method::Get) {
        used.push_back(request.header("Authorization"));
      }
    }
    return used;
  }
  [[nodiscard]] bool told(const std::string& secret) const { return log.count(secret) > 0; }

  std::function<bool()> may_send = [] { return true; };
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  NotedHttp noted{http};
  test::FakeFiles files;
  test::FakeLog log;
  std::optional<Endpoints> endpoints;
  int logins = 0;
};

}  // namespace moonfence::cluster
