#include "app/serving/certificate_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/certificates.h"
#include "support/fake_files.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The day on which the test runs, and then as the test says: certificates are made by the system's.
struct Clock final : port::WallClock {
  [[nodiscard]] WallTime now() override { return time; }
  WallTime time = std::chrono::system_clock::now();
};

struct CertificateKeeperTest : testing::Test {
  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeFiles files;
  test::FakeLog log;
  Clock clock;
  test::Authority authority{"test CA"};
  int changes = 0;
  std::shared_ptr<const os::TlsIdentity> newest;

  void put(const test::KeyPair& pair) {
    files.write("/tls/tls.crt", pair.certificate_pem);
    files.write("/tls/tls.key", pair.key_pem);
  }
  test::KeyPair issue(std::chrono::seconds until = 1h) {
    return authority.issue({.common_name = "server", .until = until});
  }
  Result<std::unique_ptr<CertificateKeeper>> open(const std::string& folder = "/tls") {
    return CertificateKeeper::open(folder, {"moonfence.ns.svc"},
                                   {.loop = loop,
                                    .files = files,
                                    .clock = clock,
                                    .log = log,
                                    .changed = [this](const auto& identity) {
                                      ++changes;
                                      newest = identity;
                                    }});
  }
  void look() { test::run_for(loop, CertificateKeeper::kLookEvery); }
};

TEST_F(CertificateKeeperTest, what_is_no_pair_at_start_is_an_error_that_names_the_flag) {
  put(issue());
  files.write("/tls/tls.key", issue().key_pem);
  const auto other = open();
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text, HasSubstr("--serving-certificate"));
  EXPECT_THAT(other.error().text, HasSubstr("/tls"));
  files.write("/tls/tls.crt", "nonsense");
  EXPECT_FALSE(open());
}

TEST_F(CertificateKeeperTest, without_one_at_start_its_own_is_shown_until_there_is_one) {
  const auto keeper = open();
  ASSERT_TRUE(keeper) << keeper.error().message();
  ASSERT_NE((*keeper)->identity(), nullptr);
  EXPECT_EQ((*keeper)->identity()->expires(),
            std::chrono::floor<std::chrono::seconds>(clock.time) + os::TlsIdentity::kLifetime);
  look();
  look();
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
  put(issue(2h));
  look();
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(newest, (*keeper)->identity());
  EXPECT_LT(newest->expires(), clock.time + 3h);
}

TEST_F(CertificateKeeperTest, its_own_one_in_place_of_a_missing_one_is_made_anew_too) {
  const auto keeper = open();
  ASSERT_TRUE(keeper);
  clock.time += os::TlsIdentity::kLifetime - CertificateKeeper::kRenewBefore + 1h;
  look();
  EXPECT_EQ(changes, 1);
  EXPECT_GT((*keeper)->identity()->expires(), clock.time + os::TlsIdentity::kLifetime - 1h);
}

TEST_F(CertificateKeeperTest, one_that_has_expired_at_start_is_shown_and_told_until_a_new_one_is) {
  put(issue());
  clock.time += 2h;
  const auto keeper = open();
  ASSERT_TRUE(keeper) << keeper.error().message();
  EXPECT_LT((*keeper)->identity()->expires(), clock.time);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
  look();
  look();
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
  put(issue(4h));
  look();
  EXPECT_EQ(changes, 1);
}

TEST_F(CertificateKeeperTest, an_expired_one_does_not_take_the_place_of_a_good_one) {
  put(issue(4h));
  const auto keeper = open();
  const auto before = (*keeper)->identity();
  clock.time += 2h;
  put(issue());
  look();
  look();
  EXPECT_EQ((*keeper)->identity(), before);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
}

TEST_F(CertificateKeeperTest, its_own_one_is_made_anew_when_the_clock_went_back_before_it) {
  clock.time += 24h * 30;
  const auto keeper = open("");
  ASSERT_TRUE(keeper);
  clock.time -= 24h * 30;
  look();
  EXPECT_EQ(changes, 1);
  EXPECT_LT(newest->expires(), clock.time + os::TlsIdentity::kLifetime + 1h);
}

TEST_F(CertificateKeeperTest, a_renewed_one_is_taken_and_the_same_one_is_not) {
  put(issue());
  const auto keeper = open();
  ASSERT_TRUE(keeper);
  look();
  EXPECT_EQ(changes, 0);
  put(issue(2h));
  look();
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(newest, (*keeper)->identity());
  look();
  EXPECT_EQ(changes, 1);
}

TEST_F(CertificateKeeperTest, half_a_change_keeps_the_old_one_and_is_not_told) {
  put(issue());
  const auto keeper = open();
  const auto before = (*keeper)->identity();
  const test::KeyPair next = issue(2h);
  files.write("/tls/tls.crt", next.certificate_pem);
  look();
  EXPECT_EQ((*keeper)->identity(), before);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 0U);
  files.write("/tls/tls.key", next.key_pem);
  look();
  EXPECT_EQ(changes, 1);
}

TEST_F(CertificateKeeperTest, a_bad_one_keeps_the_old_one_and_is_told_once) {
  put(issue());
  const auto keeper = open();
  const auto before = (*keeper)->identity();
  files.remove("/tls/tls.key");
  for (int i = 0; i < 5; ++i) {
    look();
  }
  EXPECT_EQ((*keeper)->identity(), before);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
  put(issue(2h));
  look();
  EXPECT_EQ(changes, 1);
}

TEST_F(CertificateKeeperTest, one_that_expires_stays_and_is_told_once) {
  put(issue());
  const auto keeper = open();
  const auto before = (*keeper)->identity();
  clock.time += 2h;
  for (int i = 0; i < 5; ++i) {
    look();
  }
  EXPECT_EQ((*keeper)->identity(), before);
  EXPECT_EQ(log.count("serving_certificate_unusable"), 1U);
}

TEST_F(CertificateKeeperTest, its_own_one_is_made_anew_before_it_ends) {
  const auto keeper = open("");
  ASSERT_TRUE(keeper);
  clock.time += os::TlsIdentity::kLifetime - CertificateKeeper::kRenewBefore - 1h;
  look();
  EXPECT_EQ(changes, 0);
  clock.time += 2h;
  look();
  EXPECT_EQ(changes, 1);
  EXPECT_GT(newest->expires(), clock.time + os::TlsIdentity::kLifetime - 1h);
}

}  // namespace
}  // namespace moonfence::app
