// Whether somebody renews a Lease, by our own clock alone.

#include "fence/leases/renewals.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

struct RenewalsTest : testing::Test {
  Renewals renewals;
  kube::Lease lease;
  Moment now{1h};

  RenewalsTest() {
    lease.uid = Uid("lease-1");
    lease.version = ResourceVersion("10");
    lease.record = {.holder = "kcm-1", .duration = 15s};
  }
  [[nodiscard]] std::string silence(std::optional<Moment> written_after = std::nullopt) {
    return renewals.silence("kube-system/kcm", lease, {.after = written_after, .by = std::nullopt},
                            now);
  }
};

TEST_F(RenewalsTest, what_was_written_within_its_duration_is_alive_whatever_its_stamps_say) {
  for (const auto stamp : {std::optional<WallTime>(), std::optional(WallTime(1s)),
                           std::optional(WallTime(9999999999s))}) {
    lease.record.renewed = stamp;
    EXPECT_EQ(silence(now - 15s), "");
    EXPECT_EQ(silence(now - 16s), "its Lease is not renewed");
  }
}

TEST_F(RenewalsTest, where_versions_tell_nothing_it_is_alive_once_it_is_seen_to_move) {
  EXPECT_EQ(silence(), "its Lease was not seen to be renewed yet");
  now += 5s;
  EXPECT_EQ(silence(), "its Lease was not seen to be renewed yet");
  lease.version = ResourceVersion("11");
  now += 5s;
  EXPECT_EQ(silence(), "");
  now += 10s;
  EXPECT_EQ(silence(), "");
  now += 5s;
  EXPECT_EQ(silence(), "its Lease is not renewed") << "it may be 20 s old";
}

TEST_F(RenewalsTest, another_lease_of_that_name_has_moved) {
  (void)silence();
  lease.uid = Uid("lease-2");
  lease.version = ResourceVersion("12");
  now += 5s;
  EXPECT_EQ(silence(), "");
}

// A version of 9 was written before one of 10, whatever was read first.
TEST_F(RenewalsTest, a_server_that_lags_shows_no_renewal) {
  (void)silence();
  lease.version = ResourceVersion("9");
  now += 5s;
  EXPECT_EQ(silence(), "its Lease was not seen to be renewed yet");
  lease.version = ResourceVersion("10");
  now += 5s;
  EXPECT_EQ(silence(), "its Lease was not seen to be renewed yet");
}

TEST_F(RenewalsTest, a_server_that_lags_makes_nobody_silent) {
  EXPECT_EQ(silence(now - 1s), "");
  lease.version = ResourceVersion("11");
  now += 5s;
  EXPECT_EQ(silence(), "");
  lease.version = ResourceVersion("10");
  now += 5s;
  EXPECT_EQ(silence(now - 14s), "");
}

// It lagged the first time: the newer version that follows may be minutes old.
TEST_F(RenewalsTest, what_the_store_tells_counts_more_than_what_was_read_before) {
  (void)silence();
  lease.version = ResourceVersion("11");
  now += 5s;
  EXPECT_EQ(silence(now - 1min), "its Lease is not renewed");
  EXPECT_EQ(
      renewals.silence("kube-system/kcm", lease, {.after = std::nullopt, .by = now - 1h}, now),
      "its Lease was not seen to be renewed yet");
}

// Whoever makes versions that are no numbers makes each anew.
TEST_F(RenewalsTest, versions_that_have_no_order_are_told_apart) {
  lease.version = ResourceVersion("abc");
  (void)silence();
  lease.version = ResourceVersion("abb");
  now += 5s;
  EXPECT_EQ(silence(), "");
}

TEST_F(RenewalsTest, one_that_nobody_holds_has_no_holder_that_lives) {
  lease.record.holder = "";
  EXPECT_EQ(silence(now), "nobody holds its Lease");
  lease.record = {.holder = "kcm-1", .duration = {}};
  EXPECT_EQ(silence(now), "nobody holds its Lease");
}

TEST_F(RenewalsTest, each_is_told_by_its_own) {
  (void)silence();
  lease.version = ResourceVersion("11");
  EXPECT_EQ(renewals.silence("storage/attacher", lease, {}, now + 1s),
            "its Lease was not seen to be renewed yet");
}

}  // namespace
}  // namespace moonfence::fence
