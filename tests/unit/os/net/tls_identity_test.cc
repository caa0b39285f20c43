#include "os/net/tls_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const auto taken =
      TlsIdentity::from_pem(pair.certificate_pem + authority.pem(), pair.key_pem, now());
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
    const auto taken = TlsIdentity::from_pem(certificate, key, now());
    ASSERT_FALSE(taken) << certificate << key;
    EXPECT_EQ(taken.error().kind, Error::Kind::Invalid);
    const std::string secret = pair.key_pem.substr(40, 20);
    EXPECT_THAT(taken.error().message(), Not(HasSubstr(secret)));
  }
}

TEST_F(TlsIdentityTest, an_expired_one_is_refused) {
  const test::KeyPair old = authority.issue({.common_name = "old", .from = -2h, .until = -1h});
  const auto taken = TlsIdentity::from_pem(old.certificate_pem, old.key_pem, now());
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message(), HasSubstr("expired"));
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
