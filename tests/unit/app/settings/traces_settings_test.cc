#include <string>

#include <gtest/gtest.h>

#include "app/settings/settings.h"

namespace moonfence::app {
namespace {

// The text of the error, "" when it is read.
std::string fault(const std::string& traces) {
  const auto settings = parse_settings("api: 1\ntraces: " + traces + "\n", "engine.yaml");
  return settings ? "" : settings.error().text;
}

TEST(TracesSettings, it_is_read_whole_and_is_no_endpoint_of_policies) {
  const auto settings = parse_settings(R"(api: 1
traces:
  url: https://otel.example.com:4318
  cluster: berlin-1
  timeout: 3s
  tls: {ca: /tls/ca.crt}
  auth: {type: bearer, tokenFile: /secret/token}
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message();
  ASSERT_TRUE(settings->traces);
  EXPECT_EQ(settings->traces->endpoint.url, "https://otel.example.com:4318");
  EXPECT_EQ(settings->traces->endpoint.ca_file, "/tls/ca.crt");
  EXPECT_EQ(settings->traces->endpoint.token_file, "/secret/token");
  EXPECT_EQ(settings->traces->cluster, "berlin-1");
  EXPECT_TRUE(settings->endpoints.empty());
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->traces);
}

TEST(TracesSettings, what_is_wrong_is_told_with_its_place) {
  EXPECT_EQ(fault("{url: http://otel:4318}"), "");
  EXPECT_EQ(fault("{cluster: a}"), "engine.yaml:2: traces has no url");
  EXPECT_EQ(fault("{url: https://otel:4318/v1/traces}"),
            "engine.yaml:2: traces: the url has /v1/traces");
  EXPECT_EQ(fault("{url: http://otel:4318, tls: {ca: /ca}}"),
            "engine.yaml:2: traces has tls, and its url is no https");
  EXPECT_EQ(fault("{url: http://otel:4318, cluster: 'a b'}"),
            "engine.yaml:2: cluster: 'a b' is no name of a cluster");
  EXPECT_EQ(fault("{url: http://otel:4318, cluster: " + std::string(129, 'a') + "}").substr(0, 24),
            "engine.yaml:2: cluster: ");
  EXPECT_EQ(fault("{url: http://otel:4318, cluster: [a]}").substr(0, 24),
            "engine.yaml:2: cluster: ");
  EXPECT_NE(fault("{url: http://otel:4318, events: [opened]}"), "");
  EXPECT_NE(fault("on"), "");
  EXPECT_NE(fault("{url: 'http://otel:4318', auth: {type: aws, region: r, service: s, "
                  "accessKeyFile: /a, secretKeyFile: /b}}"),
            "");
}

}  // namespace
}  // namespace moonfence::app
