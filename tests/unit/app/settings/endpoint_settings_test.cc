#include <gtest/gtest.h>

#include "app/settings/settings.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using cluster::EndpointRules;

// The text of the error, "" when it is read.
std::string fault(const std::string& endpoint) {
  const auto settings =
      parse_settings("api: 1\nendpoints:\n  vendor: " + endpoint + "\n", "engine.yaml");
  return settings ? "" : settings.error().text;
}

TEST(EndpointSettings, a_login_is_read_whole) {
  const auto settings = parse_settings(R"(api: 1
endpoints:
  vendor:
    url: https://vendor.space.svc:5705/api/
    timeout: 3s
    tls: {ca: /tls/ca.crt, clientCertificate: /tls/tls.crt, clientKey: /tls/tls.key}
    auth:
      type: login
      path: /v2/auth/login
      usernameFile: /secret/username
      passwordFile: /secret/password
      usernameField: user
      passwordField: pass
      tokenField: session.token
      expiresHeader: Authorization-Expires-Seconds
      lifetime: 2m
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message();
  ASSERT_EQ(settings->endpoints.size(), 1U);
  const EndpointRules& rules = settings->endpoints.at("vendor");
  EXPECT_EQ(rules.url, "https://vendor.space.svc:5705/api");
  EXPECT_EQ(rules.timeout, 3s);
  EXPECT_EQ(rules.ca_file, "/tls/ca.crt");
  EXPECT_EQ(rules.certificate_file, "/tls/tls.crt");
  EXPECT_EQ(rules.key_file, "/tls/tls.key");
  EXPECT_EQ(rules.auth, EndpointRules::Auth::Login);
  EXPECT_EQ(rules.username_file, "/secret/username");
  EXPECT_EQ(rules.password_file, "/secret/password");
  EXPECT_EQ(rules.login.path, "/v2/auth/login");
  EXPECT_EQ(rules.login.username_field, "user");
  EXPECT_EQ(rules.login.password_field, "pass");
  EXPECT_EQ(rules.login.token_field, "session.token");
  EXPECT_EQ(rules.login.expires_header, "Authorization-Expires-Seconds");
  EXPECT_EQ(rules.login.lifetime, 2min);
}

TEST(EndpointSettings, the_other_ways_to_authenticate) {
  EXPECT_EQ(fault("{url: http://v:1}"), "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: none}}"), "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: basic, usernameFile: /u, passwordFile: /p}}"),
            "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: bearer, tokenFile: /t}}"), "");
}

TEST(EndpointSettings, each_fault_has_one_clear_message) {
  const std::string login =
      "{url: http://v:1, auth: {type: login, path: /l, usernameFile: /u, "
      "passwordFile: /p, ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x", "not a mapping"},
      {"{}", "endpoints: vendor has no url"},
      {"{url: ftp://v}", "must begin with https:// or http://"},
      {"{url: http://user:secret@v}", "must not hold a user or password"},
      {"{url: 'http://v/?a=b'}", "must not have a query"},
      {"{url: [a]}", "url"},
      {"{urll: http://v}", "unknown key 'urll' (did you mean 'url'?)"},
      {"{url: http://v, timeout: 5}", "timeout: '5' is no duration"},
      {"{url: http://v, timeout: 2m}", "timeout must be from 100ms to 1m"},
      {"{url: http://v, tls: {ca: /ca}}", "has tls, and its url is no https"},
      {"{url: https://v, tls: {ca: ca.crt}}", "ca: 'ca.crt' is no path of a file"},
      {"{url: https://v, tls: {clientKey: /k}}", "clientCertificate and clientKey together"},
      {"{url: https://v, tls: {insecure: true}}", "unknown key 'insecure'"},
      {"{url: http://v, auth: {tokenFile: /t}}", "auth: type is missing"},
      {"{url: http://v, auth: {type: digest}}", "type: 'digest' is no way to authenticate"},
      {"{url: http://v, auth: {type: none, tokenFile: /t}}", "type none takes no tokenFile"},
      {"{url: http://v, auth: {type: bearer}}", "type bearer needs tokenFile"},
      {"{url: http://v, auth: {type: basic, usernameFile: /u}}", "type basic needs passwordFile"},
      {login + "tokenHeader: A, tokenFile: /t}}", "type login takes no tokenFile"},
      {login + "lifetime: 1m}}", "a login needs tokenHeader or tokenField"},
      {login + "tokenHeader: A, tokenField: b}}", "a login needs tokenHeader or tokenField"},
      {login + "tokenHeader: 'A b'}}", "tokenHeader: 'A b' is no name of a header"},
      {login + "tokenHeader: A, expiresHeader: B, expiresField: c}}", "exclude each other"},
      {login + "tokenHeader: A, lifetime: 10ms}}", "lifetime: shorter than 1s"},
      {"{url: http://v, auth: {type: login, path: 'http://evil/', usernameFile: /u}}",
       "path: 'http://evil/' is no path below the url"},
      {"{url: http://v, auth: {type: login, path: /../x}}", "is no path below the url"}};
  for (const auto& [given, expected] : cases) {
    const std::string text = fault(given);
    EXPECT_NE(text.find(expected), std::string::npos) << given << ": " << text;
    EXPECT_NE(text.find("engine.yaml:"), std::string::npos) << given << ": " << text;
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  }
}

TEST(EndpointSettings, a_name_is_what_a_policy_can_write) {
  for (const char* name : {"Vendor", "1a", "a_b", "''", "a.b"}) {
    const auto settings = parse_settings(
        "api: 1\nendpoints: {" + std::string(name) + ": {url: http://v}}\n", "engine.yaml");
    ASSERT_FALSE(settings) << name;
    EXPECT_NE(settings.error().text.find("is no name"), std::string::npos);
  }
  EXPECT_TRUE(parse_settings("api: 1\nendpoints: {a-1: {url: http://v}}\n", "f"));
}

}  // namespace
}  // namespace moonfence::app
