#include "kube/auth/exec_login.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "unit/kube/credentials_fixture.h"

namespace moonfence::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using ExecLoginTest = CredentialsTest;

TEST_F(ExecLoginTest, one_run_of_the_plugin_serves_everybody_until_the_expiry) {
  use_plugin();
  start();
  processes.answer(
      plugin_output({{"token", "t1"}, {"expirationTimestamp", "2026-01-01T01:00:00Z"}}));
  ask();
  ask();
  EXPECT_THAT(answers, IsEmpty());
  loop.turn();
  EXPECT_THAT(answers, ElementsAre("Authorization=Bearer t1", "Authorization=Bearer t1"));
  test::run_for(loop, 30min);
  EXPECT_EQ(asked(), "Authorization=Bearer t1");
  ASSERT_EQ(processes.commands.size(), 1U);
  processes.answer(plugin_output({{"token", "t2"}}));
  test::run_for(loop, 31min);
  EXPECT_EQ(asked(), "Authorization=Bearer t2");
  EXPECT_EQ(credentials->health().plugin.taken, 2U);
}

TEST_F(ExecLoginTest, the_plugin_gets_its_arguments_and_its_environment) {
  use_plugin();
  start();
  ask();
  ASSERT_EQ(processes.commands.size(), 1U);
  const port::Command& command = processes.commands[0];
  EXPECT_EQ(command.program, "plugin");
  EXPECT_THAT(command.arguments, ElementsAre("get"));
  ASSERT_EQ(command.environment.size(), 2U);
  EXPECT_EQ(command.environment[0].first, "A");
  EXPECT_EQ(command.environment[1].first, "KUBERNETES_EXEC_INFO");
  EXPECT_EQ(
      nlohmann::json::parse(command.environment[1].second),
      (nlohmann::json{
          {"apiVersion", kV1}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}}));
}

TEST_F(ExecLoginTest, a_plugin_that_asks_is_told_about_the_cluster_with_its_present_authority) {
  use_plugin();
  connection.identity.exec->provide_cluster_info = true;
  connection.ca_file = "/ca";
  connection.ca_pem = texts::certificate("old");
  connection.server_name = "inner";
  connection.proxy_url = "socks5://p";
  connection.plugin_config = R"({"audience":"prod"})";
  files.write("/ca", texts::certificate("new"));
  start();
  credentials->reload();
  ask();
  EXPECT_EQ(
      nlohmann::json::parse(processes.commands.at(0).environment.at(1).second)["spec"],
      (nlohmann::json{{"interactive", false},
                      {"cluster",
                       {{"server", "https://api"},
                        {"tls-server-name", "inner"},
                        {"certificate-authority-data", base64_encoded(texts::certificate("new"))},
                        {"proxy-url", "socks5://p"},
                        {"config", {{"audience", "prod"}}}}}}));
}

TEST_F(ExecLoginTest, a_credential_is_renewed_shortly_before_its_end_while_it_still_serves) {
  use_plugin();
  start();
  processes.answer(
      plugin_output({{"token", "t1"}, {"expirationTimestamp", "2026-01-01T01:00:00Z"}}));
  asked();
  test::run_for(loop, 59min + 30s);
  ask();
  EXPECT_EQ(answers.back(), "Authorization=Bearer t1");
  EXPECT_EQ(processes.commands.size(), 2U);
  processes.end(
      port::ProcessOutput{.exit_code = 0, .out = plugin_output({{"token", "t2"}}), .err = ""});
  ask();
  EXPECT_EQ(answers.back(), "Authorization=Bearer t2");
}

TEST_F(ExecLoginTest, a_401_runs_the_plugin_again_but_never_in_a_hot_loop) {
  use_plugin();
  start();
  processes.answer(plugin_output({{"token", "t1"}}));
  asked();
  EXPECT_FALSE(credentials->refused(loop.now())) << "it has only just run";
  test::run_for(loop, 10min);
  const Moment sent = loop.now();
  test::run_for(loop, 20ms);
  processes.answer(plugin_output({{"token", "t2"}}));
  EXPECT_TRUE(credentials->refused(sent));
  EXPECT_EQ(asked(), "Authorization=Bearer t2");
  EXPECT_TRUE(credentials->refused(sent)) << "a request from before the renewal may repeat";
  EXPECT_EQ(asked(), "Authorization=Bearer t2");
  EXPECT_EQ(processes.commands.size(), 2U);
  // A server that refuses everything for a minute, asked ten times a second.
  for (int i = 0; i < 600; ++i) {
    processes.answers.clear();
    processes.answer(plugin_output({{"token", "t"}}));
    const Moment now = loop.now();
    asked();
    credentials->refused(now);
    test::run_for(loop, 100ms);
  }
  EXPECT_LE(processes.commands.size(), 2U + 60U / 5U + 1U);
}

TEST_F(ExecLoginTest, a_failing_plugin_backs_off_and_says_why) {
  use_plugin();
  start();
  const port::ProcessOutput bad{
      .exit_code = 3, .out = "hush", .err = "no \x1b[31msession\n" + std::string(5000, 'x')};
  for (int second = 0; second < 600; ++second) {
    processes.answers.assign(1, bad);
    asked();
    test::run_for(loop, 1s);
  }
  // Pauses of 5, 10, 20, 40 and then 60 s.
  EXPECT_LE(processes.commands.size(), 14U);
  EXPECT_GE(processes.commands.size(), 10U);
  EXPECT_THAT(answers.front(),
              HasSubstr("exec plugin \"plugin\": ended with code 3: \"no \\x1b[31m"));
  EXPECT_THAT(answers.front(), Not(HasSubstr("hush")));
  EXPECT_LT(answers.front().size(), 800U);
  EXPECT_EQ(last_error->kind, Error::Kind::Retryable);
  ASSERT_TRUE(last_error->retry_after);
  EXPECT_LE(*last_error->retry_after, 60s);
  EXPECT_EQ(log.warnings, 1);
  processes.answers.clear();
  processes.answer(plugin_output({{"token", "t"}}));
  test::run_for(loop, 61s);
  EXPECT_EQ(asked(), "Authorization=Bearer t");
}

TEST_F(ExecLoginTest, everybody_waiting_hears_of_a_plugin_that_hangs) {
  use_plugin();
  start();
  ask();
  ask();
  test::run_for(loop, 29s);
  ask();
  processes.end(failure(Error::Kind::Retryable, "plugin: did not end within 30s"));
  EXPECT_THAT(answers, testing::SizeIs(3));
  EXPECT_THAT(answers, testing::Each(HasSubstr("did not end within 30s")));
  EXPECT_EQ(processes.commands.size(), 1U);
}

TEST_F(ExecLoginTest, a_missing_plugin_shows_its_install_hint) {
  use_plugin();
  start();
  processes.answers.emplace_back(failure(Error::Kind::NotFound, "plugin: no such file"));
  EXPECT_THAT(asked(), HasSubstr("(Install it.)"));
  EXPECT_EQ(last_error->kind, Error::Kind::Unauthorized);
}

TEST_F(ExecLoginTest, a_plugin_that_gives_what_has_expired_fails) {
  use_plugin();
  start();
  processes.answer(
      plugin_output({{"token", "t"}, {"expirationTimestamp", "2025-12-31T23:59:59Z"}}));
  EXPECT_THAT(asked(), HasSubstr("expired at 2025-12-31T23:59:59Z"));
}

TEST_F(ExecLoginTest, a_failing_renewal_leaves_a_credential_that_is_still_good) {
  use_plugin();
  start();
  processes.answer(
      plugin_output({{"token", "t1"}, {"expirationTimestamp", "2026-01-01T01:00:00Z"}}));
  asked();
  test::run_for(loop, 59min + 30s);
  processes.answer("garbage");
  EXPECT_EQ(asked(), "Authorization=Bearer t1");
  test::run_for(loop, 1s);
  EXPECT_EQ(asked(), "Authorization=Bearer t1");
  EXPECT_EQ(credentials->health().plugin.failed, 1U);
}

TEST_F(ExecLoginTest, a_certificate_from_a_plugin_replaces_the_old_one_and_its_connections) {
  use_plugin();
  start();
  const auto pair = [](const std::string& n) {
    return plugin_output({{"clientCertificateData", texts::certificate("c" + n)},
                          {"clientKeyData", texts::key("k" + n)}});
  };
  processes.answer(pair("1"));
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c1"));
  const int drops = network.drops;
  test::run_for(loop, 10min);
  processes.answer(pair("1"));
  EXPECT_TRUE(credentials->refused(loop.now()));
  asked();
  EXPECT_EQ(network.drops, drops) << "the same certificate keeps its connections";
  test::run_for(loop, 10min);
  processes.answer(pair("2"));
  EXPECT_TRUE(credentials->refused(loop.now()));
  asked();
  EXPECT_EQ(network.tls.key_pem, texts::key("k2"));
  EXPECT_EQ(network.drops, drops + 1);
}

TEST_F(ExecLoginTest, a_new_token_from_a_plugin_keeps_the_connections) {
  use_plugin();
  start();
  processes.answer(plugin_output({{"token", "t1"}}));
  asked();
  test::run_for(loop, 10min);
  processes.answer(plugin_output({{"token", "t2"}}));
  EXPECT_TRUE(credentials->refused(loop.now()));
  EXPECT_EQ(asked(), "Authorization=Bearer t2");
  EXPECT_EQ(network.drops, 0);
}

TEST_F(ExecLoginTest, destroyed_credentials_are_silent) {
  use_plugin();
  start();
  processes.answer(plugin_output({{"token", "t1"}}));
  ask();
  credentials.reset();
  test::run_for(loop, 1h);
  EXPECT_THAT(answers, IsEmpty());
}

}  // namespace
}  // namespace moonfence::kube
