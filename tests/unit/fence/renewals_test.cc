// Whether somebody renews a Lease, by our own clock alone.

#include "fence/renewals.h"

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
    return renewals.silence("kube-system/kcm", lease, written_after, now);
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
  EXPECT_EQ(renewals.silence("storage/attacher", lease, std::nullopt, now + 1s),
            "its Lease was not seen to be renewed yet");
}

}  // namespace
}  // namespace moonfence::fence
