#include "os/net/tls_identity.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "support/certificates.h"

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

WallTime now() {
  return std::chrono::system_clock::now();
}

struct TlsIdentityTest : testing::Test {
  test::Authority authority{"test CA"};
  test::KeyPair pair = authority.issue({.common_name = "server"});
};

TEST_F(TlsIdentityTest, a_pair_with_its_chain_is_taken) {
  const auto taken = TlsIdentity::from_pem(pair.certificate_pem + authority.pem(), pair.key_pem);
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_GT((*taken)->expires(), now());
}

TEST_F(TlsIdentityTest, what_cannot_be_used_is_refused_and_the_key_never_shown) {
  const test::KeyPair other = authority.issue({.common_name = "other"});
  const std::string half = pair.certificate_pem.substr(0, pair.certificate_pem.size() / 2);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", pair.key_pem},
      {"nonsense", pair.key_pem},
      {half, pair.key_pem},
      {pair.key_pem, pair.key_pem},
      {pair.certificate_pem, ""},
      {pair.certificate_pem, pair.certificate_pem},
      {pair.certificate_pem, pair.key_pem.substr(0, pair.key_pem.size() / 2)},
      {pair.certificate_pem, other.key_pem},
      {pair.certificate_pem + half, pair.key_pem},
  };
  for (const auto& [certificate, key] : bad) {
    const auto taken = TlsIdentity::from_pem(certificate, key);
    ASSERT_FALSE(taken) << certificate << key;
    EXPECT_EQ(taken.error().kind, Error::Kind::Invalid);
    const std::string secret = pair.key_pem.substr(40, 20);
    EXPECT_THAT(taken.error().message(), Not(HasSubstr(secret)));
  }
}

TEST_F(TlsIdentityTest, an_expired_one_says_when_it_ended) {
  const test::KeyPair old = authority.issue({.common_name = "old", .from = -2h, .until = -1h});
  const auto taken = TlsIdentity::from_pem(old.certificate_pem, old.key_pem);
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_LT((*taken)->expires(), now());
}

// A client may send any number of records without data, a KeyUpdate each: one call reads one.
TEST_F(TlsIdentityTest, one_read_does_not_go_on_as_long_as_a_client_sends_records_without_data) {
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const auto identity = TlsIdentity::self_signed({"localhost"}, now());
  ASSERT_TRUE(identity);
  const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, Free> client(SSL_new(context.get()));
  const std::unique_ptr<SSL, Free> server(SSL_new((*identity)->context()));
  BIO* there = BIO_new(BIO_s_mem());
  BIO* back = BIO_new(BIO_s_mem());
  BIO_up_ref(there);
  BIO_up_ref(back);
  SSL_set_bio(client.get(), back, there);
  SSL_set_bio(server.get(), there, back);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  for (int i = 0; i < 4; ++i) {
    (void)SSL_do_handshake(client.get());
    (void)SSL_do_handshake(server.get());
  }
  ASSERT_TRUE(SSL_is_init_finished(server.get()));
  constexpr int kUpdates = 10;
  for (int i = 0; i < kUpdates; ++i) {
    ASSERT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(client.get()), 1);
  }
  ASSERT_EQ(SSL_write(client.get(), "x", 1), 1);
  char byte = 0;
  int reads = 1;
  while (SSL_read(server.get(), &byte, 1) != 1) {
    ASSERT_LE(++reads, kUpdates + 1);
  }
  EXPECT_EQ(reads, kUpdates + 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(TlsIdentityTest, its_own_certificate_is_good_for_a_year_whatever_the_names_are) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{}, {"moonfence.ns.svc", "10.0.0.1", "::1"}, {"a,email:x@y", ""}}) {
    const WallTime made = now();
    const auto own = TlsIdentity::self_signed(names, made);
    ASSERT_TRUE(own) << own.error().message();
    EXPECT_EQ((*own)->expires(),
              std::chrono::floor<std::chrono::seconds>(made) + TlsIdentity::kLifetime);
  }
}

}  // namespace
}  // namespace moonfence::os
