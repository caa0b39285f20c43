#include "kube/auth/exec_credential.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "unit/kube/credentials_fixture.h"

namespace moonfence::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

struct PluginOutput {
  std::string name;
  std::string output;
  std::string expected;
};
void PrintTo(const PluginOutput& output, std::ostream* out) {
  *out << output.name;
}

struct BadPluginOutput : testing::TestWithParam<PluginOutput> {};

TEST_P(BadPluginOutput, is_refused_without_quoting_it) {
  const auto parsed = parse_exec_credential(GetParam().output, kV1);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, Error::Kind::Malformed);
  EXPECT_THAT(parsed.error().message(), HasSubstr(GetParam().expected));
  EXPECT_THAT(parsed.error().message(), Not(HasSubstr("hush")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPluginOutput,
    testing::Values(
        PluginOutput{"empty", "", "no JSON"}, PluginOutput{"garbage", "hush\x1b[31m", "no JSON"},
        PluginOutput{"trailing", plugin_output({{"token", "hush"}}) + "x", "no JSON"},
        PluginOutput{"array", "[]", "no JSON object"},
        PluginOutput{"other_kind", R"({"kind":"Status","message":"hush"})", "other than an"},
        PluginOutput{"other_version",
                     plugin_output({{"token", "hush"}}, "client.authentication.k8s.io/v1beta1"),
                     "v1beta1\", but the kubeconfig says"},
        PluginOutput{"no_status", R"({"kind":"ExecCredential","apiVersion":")" + kV1 + "\"}",
                     "no status"},
        PluginOutput{"nothing", plugin_output({{"token", ""}}), "neither a token"},
        PluginOutput{"number", plugin_output({{"token", 7}}), "its token is no string"},
        PluginOutput{"lines", plugin_output({{"token", "hush\r\nX: y"}}), "white space"},
        PluginOutput{"cert_only",
                     plugin_output({{"clientCertificateData", texts::certificate("c")}}),
                     "only one of"},
        PluginOutput{"key_only", plugin_output({{"token", "t"}, {"clientKeyData", "hush"}}),
                     "only one of"},
        PluginOutput{"no_pem",
                     plugin_output({{"clientCertificateData", "hush"}, {"clientKeyData", "hush"}}),
                     "clientCertificateData holds no PEM"},
        PluginOutput{"no_time",
                     plugin_output({{"token", "hush"}, {"expirationTimestamp", "tomorrow"}}),
                     "\"tomorrow\" is no RFC 3339 time"}),
    [](const auto& output) { return output.param.name; });

TEST(GoodPluginOutput, has_a_token_or_a_pair_and_perhaps_an_end) {
  const auto parsed =
      parse_exec_credential(plugin_output({{"token", "t"},
                                           {"clientCertificateData", texts::certificate("c")},
                                           {"clientKeyData", texts::key("k")},
                                           {"expirationTimestamp", "2026-01-01T00:00:00+01:00"},
                                           {"more", {1, 2}}}),
                            kV1);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->token, "t");
  EXPECT_EQ(parsed->key_pem, texts::key("k"));
  EXPECT_EQ(parsed->expires, parse_rfc3339("2025-12-31T23:00:00Z"));
  EXPECT_EQ(
      parse_exec_credential(plugin_output({{"token", "t"}, {"expirationTimestamp", nullptr}}), kV1)
          ->expires,
      std::nullopt);
}

}  // namespace
}  // namespace moonfence::kube
