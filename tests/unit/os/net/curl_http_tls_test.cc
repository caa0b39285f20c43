#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/net/curl_http.h"
#include "support/http_client.h"
#include "support/tls_server.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using test::Peer;
using test::RecordingSink;
using test::TestServer;
using testing::HasSubstr;

struct CurlTlsTest : testing::Test, test::HttpClient {
  test::Authority authority{"test CA"};
  test::KeyPair good = authority.issue({.common_name = "server"});
  RecordingSink sink;
};

TEST_F(CurlTlsTest, verified_exchange_works) {
  const TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.ca_pem = authority.pem()});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "ok") << sink.error();
}

TEST_F(CurlTlsTest, unknown_authority_is_refused_with_advice) {
  const TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.ca_pem = test::Authority("other CA").pem()});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr(server.place()));
  EXPECT_THAT(sink.error(), HasSubstr("unknown CA"));
  EXPECT_THAT(sink.error(), HasSubstr("check certificate-authority in the kubeconfig"));
  EXPECT_FALSE(sink.end->sent);
}

// Its settings stand in the engine's configuration, and in no kubeconfig.
TEST_F(CurlTlsTest, of_an_endpoint_nobody_is_sent_to_the_kubeconfig) {
  const TestServer unknown({.tls = good}, test::answer_ok);
  const TestServer other(
      {.tls = authority.issue({.common_name = "server", .alternative_names = "DNS:api.example"})},
      test::answer_ok);
  const TestServer expired(
      {.tls = authority.issue({.common_name = "old", .from = -2h, .until = -1h})}, test::answer_ok);
  const auto ask = [this](const std::string& url, port::TlsSettings tls) {
    RecordingSink told;
    const auto transfer = http.start(
        {.url = url, .tls = std::make_shared<const port::TlsSettings>(std::move(tls))}, told);
    EXPECT_TRUE(run_until_ended(told));
    EXPECT_THAT(told.error(), testing::Not(HasSubstr("kubeconfig")));
    EXPECT_THAT(told.error(), testing::Not(HasSubstr("API server")));
    return told.error();
  };
  EXPECT_THAT(ask(unknown.url(), {.ca_pem = test::Authority("other CA").pem()}),
              HasSubstr("check tls.ca of the endpoint"));
  EXPECT_THAT(ask(unknown.url(), {.ca_pem = "not a certificate"}), HasSubstr("check tls.ca"));
  EXPECT_THAT(
      ask(unknown.url(), {.ca_pem = authority.pem(), .certificate_pem = "x", .key_pem = "y"}),
      HasSubstr("check tls.clientCertificate and tls.clientKey"));
  EXPECT_THAT(ask(other.url(), {.ca_pem = authority.pem()}), HasSubstr("the endpoint's url"));
  EXPECT_THAT(ask(expired.url(), {.ca_pem = authority.pem()}),
              HasSubstr("renew the server's certificate"));
  EXPECT_THAT(ask("http://127.0.0.1:1", {}), HasSubstr("a NetworkPolicy has to allow its port"));
}

TEST_F(CurlTlsTest, without_a_ca_the_system_store_decides) {
  const TestServer server({.tls = good}, test::answer_ok);
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr("unknown CA"));
}

TEST_F(CurlTlsTest, other_name_is_refused_with_advice) {
  const TestServer server(
      {.tls = authority.issue({.common_name = "server", .alternative_names = "DNS:api.example"})},
      test::answer_ok);
  http.use_tls({.ca_pem = authority.pem()});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr("another name"));
  EXPECT_THAT(sink.error(), HasSubstr("tls-server-name"));
  EXPECT_FALSE(sink.end->sent);
}

TEST_F(CurlTlsTest, expired_and_future_certificates_are_refused) {
  http.use_tls({.ca_pem = authority.pem()});
  const TestServer expired(
      {.tls = authority.issue({.common_name = "old", .from = -2h, .until = -1h})}, test::answer_ok);
  ASSERT_TRUE(get(expired.url(), sink));
  EXPECT_THAT(sink.error(), HasSubstr("has expired"));
  const TestServer future({.tls = authority.issue({.common_name = "new", .from = 1h, .until = 2h})},
                          test::answer_ok);
  RecordingSink second;
  ASSERT_TRUE(get(future.url(), second));
  EXPECT_THAT(second.error(), HasSubstr("not yet valid"));
}

TEST_F(CurlTlsTest, only_an_explicit_setting_skips_verification) {
  const TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.insecure = true});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "ok") << sink.error();
}

TEST_F(CurlTlsTest, server_name_is_what_is_asked_for_and_verified) {
  std::string asked;
  std::string request;
  const TestServer server(
      {.tls = authority.issue({.common_name = "server", .alternative_names = "DNS:api.example"})},
      [&](Peer& peer) {
        asked = peer.server_name();
        request = peer.read_request().value_or("");
        peer.answer("ok");
      });
  http.use_tls({.ca_pem = authority.pem(), .server_name = "api.example"});
  ASSERT_TRUE(get(server.url("/path"), sink));
  EXPECT_EQ(sink.body, "ok") << sink.error();
  EXPECT_EQ(asked, "api.example");
  EXPECT_THAT(request, testing::StartsWith("GET /path HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Host: " + server.place() + "\r\n"));
}

TEST_F(CurlTlsTest, overridden_name_must_match_too) {
  const TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.ca_pem = authority.pem(), .server_name = "api.example"});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_THAT(sink.error(), HasSubstr(server.place() + ": TLS"));
  EXPECT_THAT(sink.error(), HasSubstr("another name"));
}

// Remembers which client certificate each connection showed.
struct MutualServer {
  explicit MutualServer(const test::KeyPair& pair, const test::Authority& clients)
      : server({.tls = pair, .client_ca_pem = clients.pem()}, [this](Peer& peer) {
          {
            const std::lock_guard lock(mutex);
            names.push_back(peer.client_name());
          }
          test::answer_ok(peer);
        }) {}
  std::mutex mutex;
  std::vector<std::string> names;
  TestServer server;
};

TEST_F(CurlTlsTest, client_certificate_is_shown_and_swapped) {
  MutualServer mutual(good, authority);
  const auto use = [&](const std::string& name) {
    const test::KeyPair pair = authority.issue({.common_name = name});
    http.use_tls({.ca_pem = authority.pem(),
                  .certificate_pem = pair.certificate_pem,
                  .key_pem = pair.key_pem});
  };
  use("first");
  ASSERT_TRUE(get(mutual.server.url(), sink));
  EXPECT_EQ(sink.body, "ok") << sink.error();
  use("second");
  http.drop_connections();
  RecordingSink second;
  ASSERT_TRUE(get(mutual.server.url(), second));
  EXPECT_EQ(second.body, "ok") << second.error();
  EXPECT_THAT(mutual.names, testing::ElementsAre("first", "second"));
}

TEST_F(CurlTlsTest, missing_client_certificate_is_named) {
  MutualServer mutual(good, authority);
  http.use_tls({.ca_pem = authority.pem()});
  ASSERT_TRUE(get(mutual.server.url(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr("client certificate"));
  EXPECT_THAT(sink.error(), HasSubstr("check client-certificate"));
}

TEST_F(CurlTlsTest, unreadable_pem_texts_are_named) {
  const TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.ca_pem = "not a certificate"});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_THAT(sink.error(), HasSubstr("check certificate-authority")) << sink.error();
  http.use_tls({.ca_pem = authority.pem(), .certificate_pem = "x", .key_pem = "y"});
  RecordingSink second;
  ASSERT_TRUE(get(server.url(), second));
  EXPECT_THAT(second.error(), HasSubstr("check client-certificate")) << second.error();
}

TEST_F(CurlTlsTest, swapped_authority_is_used_for_new_connections) {
  TestServer server({.tls = good}, test::answer_ok);
  http.use_tls({.ca_pem = authority.pem()});
  ASSERT_TRUE(get(server.url(), sink));
  EXPECT_EQ(sink.body, "ok") << sink.error();

  const test::Authority next("next CA");
  server.use_certificate(next.issue({.common_name = "server"}));
  http.drop_connections();
  RecordingSink refused;
  ASSERT_TRUE(get(server.url(), refused));
  EXPECT_THAT(refused.error(), HasSubstr("unknown CA"));

  http.use_tls({.ca_pem = next.pem()});
  RecordingSink accepted;
  ASSERT_TRUE(get(server.url(), accepted));
  EXPECT_EQ(accepted.body, "ok") << accepted.error();
}

TEST_F(CurlTlsTest, plain_server_behind_https_is_named) {
  const TestServer server({}, [](Peer& peer) {
    peer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
    peer.wait_closed();
  });
  ASSERT_TRUE(get("https://" + server.place(), sink));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.error(), HasSubstr("TLS handshake failed"));
}

TEST_F(CurlTlsTest, proxy_is_asked_for_a_tunnel_and_sees_no_credentials) {
  std::string request;
  const TestServer proxy({}, [&](Peer& peer) {
    request = peer.read_request().value_or("");
    peer.answer("", "502 Bad Gateway");
  });
  http.use_tls({.ca_pem = authority.pem(), .proxy_url = "http://" + proxy.place()});
  const auto transfer = http.start(
      {.url = "https://127.0.0.1:6443/", .headers = {{"Authorization", "Bearer secret"}}}, sink);
  ASSERT_TRUE(run_until_ended(sink));
  EXPECT_THAT(request, testing::StartsWith("CONNECT 127.0.0.1:6443 HTTP/1.1\r\n"));
  EXPECT_THAT(request, testing::Not(HasSubstr("secret")));
  EXPECT_EQ(sink.kind(), Error::Kind::Retryable);
  EXPECT_THAT(sink.calls, testing::ElementsAre("end")) << "a proxy's answer taken for the server's";
  EXPECT_FALSE(sink.end->sent);
}

}  // namespace
}  // namespace moonfence::os
