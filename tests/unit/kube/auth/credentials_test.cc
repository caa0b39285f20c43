#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kube/auth/live_credentials.h"
#include "unit/kube/credentials_fixture.h"

namespace moonfence::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(CredentialsTest, nobody_a_token_and_a_password_are_sent_as_they_are) {
  start();
  EXPECT_EQ(asked(), "");
  EXPECT_FALSE(credentials->refused(loop.now()));
  connection.identity.impersonation = {{"Impersonate-User", "admin"}};
  connection.identity.token = "fixed";
  start();
  EXPECT_EQ(asked(), "Impersonate-User=admin Authorization=Bearer fixed");
  EXPECT_FALSE(credentials->refused(loop.now()));
  connection.identity = {};
  connection.identity.username = "Aladdin";
  connection.identity.password = "open sesame";
  start();
  EXPECT_EQ(asked(), "Authorization=Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST_F(CredentialsTest, headers_at_hand_come_in_the_same_turn) {
  use_token_file("one");
  start();
  ask();
  EXPECT_THAT(answers, ElementsAre("Authorization=Bearer one"));
}

TEST_F(CredentialsTest, a_token_file_swapped_like_the_kubelet_does_is_seen_within_a_minute) {
  use_token_file("one");
  start();
  files.write("/t", "two\n");
  test::run_for(loop, 61s);
  EXPECT_EQ(asked(), "Authorization=Bearer two");
  EXPECT_EQ(credentials->health().token.taken, 1U);
}

TEST_F(CredentialsTest, a_token_file_that_is_gone_empty_or_garbled_leaves_the_last_good_token) {
  use_token_file("one");
  start();
  files.remove("/t");
  test::run_for(loop, 61s);
  EXPECT_EQ(asked(), "Authorization=Bearer one");
  files.write("/t", " \n");
  test::run_for(loop, 61s);
  files.write("/t", "two\nX-Evil: 1");
  test::run_for(loop, 61s);
  EXPECT_EQ(asked(), "Authorization=Bearer one");
  EXPECT_EQ(credentials->health().token.failed, 3U);
  EXPECT_THAT(credentials->health().token.fault, HasSubstr("more than one word"));
  files.write("/t", "three");
  test::run_for(loop, 61s);
  EXPECT_EQ(asked(), "Authorization=Bearer three");
  EXPECT_THAT(credentials->health().token.fault, IsEmpty());
}

TEST_F(CredentialsTest, the_same_fault_is_logged_once) {
  use_token_file("one");
  start();
  files.remove("/t");
  test::run_for(loop, 1h);
  EXPECT_GE(credentials->health().token.failed, 59U);
  EXPECT_EQ(log.warnings, 1);
}

TEST_F(CredentialsTest, a_401_reads_the_token_file_at_once) {
  use_token_file("one");
  start();
  const Moment sent = loop.now();
  EXPECT_FALSE(credentials->refused(sent)) << "the file still holds the refused token";
  test::run_for(loop, 5s);
  files.write("/t", "two");
  EXPECT_TRUE(credentials->refused(sent));
  EXPECT_TRUE(credentials->refused(sent)) << "another request of that time finds it renewed";
  EXPECT_EQ(asked(), "Authorization=Bearer two");
  EXPECT_FALSE(credentials->refused(loop.now()));
}

TEST_F(CredentialsTest, tls_settings_reach_the_network_at_once) {
  connection.ca_pem = "ca";
  connection.server_name = "inner";
  connection.proxy_url = "http://p";
  connection.insecure = true;
  start();
  EXPECT_EQ(network.tls, (port::TlsSettings{.ca_pem = "ca",
                                            .certificate_pem = "",
                                            .key_pem = "",
                                            .server_name = "inner",
                                            .insecure = true,
                                            .proxy_url = "http://p"}));
}

TEST_F(CredentialsTest, a_new_authority_counts_for_new_connections_only) {
  connection.ca_file = "/ca";
  connection.ca_pem = texts::certificate("old");
  files.write("/ca", texts::certificate("old"));
  start();
  test::run_for(loop, 6min);
  EXPECT_EQ(network.tls_calls, 1);
  files.write("/ca", texts::certificate("new"));
  test::run_for(loop, 5min);
  EXPECT_EQ(network.tls.ca_pem, texts::certificate("new"));
  EXPECT_EQ(network.drops, 0);
  EXPECT_EQ(credentials->health().authority.taken, 1U);
}

TEST_F(CredentialsTest, a_broken_authority_file_leaves_the_trust_store) {
  connection.ca_file = "/ca";
  connection.ca_pem = texts::certificate("old");
  start();
  for (const std::string& text :
       {std::string(), std::string("garbage"), texts::certificate("new").substr(0, 40)}) {
    files.write("/ca", text);
    test::run_for(loop, 5min + 1s);
  }
  files.remove("/ca");
  test::run_for(loop, 5min);
  EXPECT_EQ(network.tls.ca_pem, texts::certificate("old"));
  EXPECT_EQ(network.tls_calls, 1);
  EXPECT_EQ(credentials->health().authority.failed, 4U);
}

TEST_F(CredentialsTest, a_new_client_certificate_ends_the_old_connections) {
  use_certificate_files();
  start();
  files.write("/c", texts::certificate("c2"));
  files.write("/k", texts::key("k2"));
  test::run_for(loop, 5min + 6s);
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c2"));
  EXPECT_EQ(network.tls.key_pem, texts::key("k2"));
  EXPECT_EQ(network.drops, 1);
  EXPECT_EQ(credentials->health().certificate.taken, 1U);
}

TEST_F(CredentialsTest, a_half_written_pair_never_comes_into_force) {
  use_certificate_files();
  start();
  files.write("/c", texts::certificate("c2"));
  test::run_for(loop, 5min + 1s);  // sees the new certificate with the old key
  files.write("/k", texts::key("k2"));
  test::run_for(loop, 4s + 100ms);  // looks again: changed once more
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c1"));
  test::run_for(loop, 6s);
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c2"));
  EXPECT_EQ(network.tls.key_pem, texts::key("k2"));
  EXPECT_EQ(network.drops, 1);
}

TEST_F(CredentialsTest, a_missing_key_leaves_the_old_pair) {
  use_certificate_files();
  start();
  files.write("/c", texts::certificate("c2"));
  files.remove("/k");
  test::run_for(loop, 11min);
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c1"));
  EXPECT_EQ(credentials->health().certificate.failed, 2U);
}

TEST_F(CredentialsTest, a_401_looks_at_the_client_certificate_but_not_at_every_one) {
  use_certificate_files();
  start();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(credentials->refused(loop.now()));
  }
  EXPECT_EQ(files.reads("/c"), 1);
  files.write("/c", texts::certificate("c2"));
  files.write("/k", texts::key("k2"));
  test::run_for(loop, 11s);
  EXPECT_FALSE(credentials->refused(loop.now()));
  test::run_for(loop, 6s);
  EXPECT_EQ(network.tls.certificate_pem, texts::certificate("c2"));
}

}  // namespace
}  // namespace moonfence::kube
