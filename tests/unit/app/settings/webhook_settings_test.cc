#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/settings/settings.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The error, "" when it is read.
std::string fault(const std::string& webhook) {
  const auto settings = parse_settings("api: 1\nwebhook: " + webhook + "\n", "engine.yaml");
  return settings ? "" : settings.error().message();
}

TEST(WebhookSettings, without_the_key_nobody_is_told) {
  const auto settings = parse_settings("api: 1\n", "f");
  ASSERT_TRUE(settings);
  EXPECT_FALSE(settings->webhook);
}

TEST(WebhookSettings, every_key_is_read_and_no_policy_reaches_it) {
  const auto settings = parse_settings(R"(api: 1
webhook:
  url: https://hooks.example.com/moonfence/
  secretFile: /etc/moonfence/webhook/secret
  source: /clusters/berlin-1
  events: [attention, settled]
  timeout: 3s
  tls: {ca: /tls/ca.crt}
  headers: {X-Team: storage}
  auth: {type: bearer, tokenFile: /token}
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message();
  ASSERT_TRUE(settings->webhook);
  const WebhookSetting& webhook = *settings->webhook;
  EXPECT_EQ(webhook.endpoint.url, "https://hooks.example.com/moonfence/") << "with its slash";
  EXPECT_EQ(webhook.endpoint.timeout, 3s);
  EXPECT_EQ(webhook.endpoint.ca_file, "/tls/ca.crt");
  EXPECT_EQ(webhook.endpoint.token_file, "/token");
  EXPECT_EQ(webhook.secret_file, "/etc/moonfence/webhook/secret");
  EXPECT_EQ(webhook.source, "/clusters/berlin-1");
  EXPECT_EQ(webhook.events,
            (std::set<IncidentPhase>{IncidentPhase::Attention, IncidentPhase::Settled}));
  EXPECT_TRUE(settings->endpoints.empty());
}

TEST(WebhookSettings, the_url_is_used_as_it_is_written) {
  for (const std::string url :
       {"https://h", "https://h/", "https://h/hook/", "https://h/hook//",
        "https://h/bot12:AA-b_c/send@x;v=1+2!$&'()*,", "http://[::1]:8080/a%2Fb"}) {
    const auto settings =
        parse_settings("api: 1\nwebhook: {url: \"" + url + "\", secretFile: /s}\n", "f");
    ASSERT_TRUE(settings) << settings.error().message();
    EXPECT_EQ(settings->webhook->endpoint.url, url);
  }
  const auto login = parse_settings(
      "api: 1\nwebhook: {url: HTTPS://h/hook/, secretFile: /s, auth: {type: login, path: /login, "
      "usernameFile: /u, passwordFile: /p, tokenField: token}}\n",
      "f");
  ASSERT_TRUE(login) << login.error().message();
  EXPECT_EQ(login->webhook->endpoint.url, "https://h/hook/");
  EXPECT_EQ(login->webhook->endpoint.login.url, "https://h/hook");
}

TEST(WebhookSettings, everything_is_told_when_nothing_is_said) {
  const auto settings = parse_settings("api: 1\nwebhook: {url: https://h, secretFile: /s}\n", "f");
  ASSERT_TRUE(settings) << settings.error().message();
  EXPECT_EQ(settings->webhook->events.size(), 4U);
  EXPECT_EQ(settings->webhook->source, "");
}

TEST(WebhookSettings, what_is_wrong_is_told_with_its_place_and_what_to_write) {
  EXPECT_EQ(fault("{url: https://h}"),
            "engine.yaml:2: webhook has no secretFile (a file with whsec_ and 24 to 64 bytes in "
            "base64, which messages are signed with)");
  EXPECT_THAT(fault("{secretFile: /s}"), HasSubstr("engine.yaml:2: webhook has no url"));
  EXPECT_THAT(fault("off"), HasSubstr("webhook: not a mapping"));
  EXPECT_THAT(fault("{url: https://h, secret: whsec_abc}"), HasSubstr("unknown key 'secret'"));
  EXPECT_THAT(fault("{url: 'ftp://h', secretFile: /s}"), HasSubstr("must begin with https://"));
  EXPECT_THAT(fault("{url: 'https://h/a?b=c', secretFile: /s}"), HasSubstr("query"));
  for (const char* path : {"a|b", "{a}", "a%2", "a^b"}) {
    const std::string told = fault("{url: 'https://h/" + std::string(path) + "', secretFile: /s}");
    EXPECT_THAT(told, HasSubstr("url: its path has characters that must be percent-encoded"));
    EXPECT_THAT(told, testing::Not(HasSubstr(path))) << "it may be a secret";
  }
  EXPECT_THAT(fault("{url: https://h, secretFile: s}"), HasSubstr("no path of a file"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, events: []}"), HasSubstr("no list"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, events: [closed]}"),
              HasSubstr("'closed' is not known (write a list of opened, acting, attention"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, source: 'a b'}"),
              HasSubstr("'a b' is no URI reference"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, timeout: 2m}"),
              HasSubstr("webhook: timeout must be from 100ms to 1m"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, headers: {Webhook-Id: x}}"),
              HasSubstr("Webhook-Id is set by moonfence"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, headers: {X-Token: y}, "
                    "auth: {type: bearer, tokenFile: /t, sendHeader: X-Token}}"),
              HasSubstr("engine.yaml:2: webhook: headers has X-Token"));
  EXPECT_THAT(fault("{url: https://h, secretFile: /s, auth: {type: aws, region: eu-central-1, "
                    "accessKeyFile: /a, secretKeyFile: /b}}"),
              HasSubstr("webhook: auth of type aws"));
}

}  // namespace
}  // namespace moonfence::app
