#include "fence/pulse.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using cluster::Readiness;

struct PulseTest : testing::Test {
  PulseWatch watch;
  Moment t0 = Moment{} + 1h;
  WallTime changed = WallTime(1767330000s);
  Duration way = 20ms;  // of each reading

  static Result<kube::Lease> lease(std::optional<WallTime> renewed, Duration duration = 40s,
                                   const std::string& uid = "l1") {
    kube::Lease made;
    made.uid = Uid(uid);
    made.record.renewed = renewed;
    made.record.duration = duration;
    return made;
  }
  static Result<kube::Lease> failed(Error::Kind kind) { return failure(kind, "no"); }

  Pulse feel(const Result<kube::Lease>& seen, Readiness readiness, Duration sent) {
    return watch.feel(seen, readiness, changed, t0 + sent, t0 + sent + way).pulse;
  }
};

TEST_F(PulseTest, on_unknown_a_lease_that_was_not_renewed_since_is_dead_at_once) {
  EXPECT_EQ(feel(lease(changed - 40s), Readiness::Unknown, 0s), Pulse::Dead);
  EXPECT_EQ(feel(lease(changed), Readiness::Unknown, 0s), Pulse::Dead);
  EXPECT_EQ(feel(lease(changed + 1us), Readiness::Unknown, 0s), Pulse::Alive);
}

// etcd stood still for 30 s: no kubelet could renew, and kube-controller-manager called the first
// node Unknown before its kubelet had. Its pods were deleted 42 ms later.
TEST_F(PulseTest, after_an_outage_a_lease_that_nobody_could_renew_proves_nothing) {
  const auto seen = lease(changed - 35s);
  const Moment ended = t0 - 1s;
  const auto found = watch.feel(seen, Readiness::Unknown, changed, t0, t0 + way, ended);
  EXPECT_EQ(found.pulse, Pulse::Alive);
  EXPECT_EQ(found.dead_at, t0 + way + 40s);
  EXPECT_EQ(
      watch.feel(failed(Error::Kind::NotFound), Readiness::Unknown, changed, t0, t0, ended).pulse,
      Pulse::Alive);
  EXPECT_EQ(watch.feel(seen, Readiness::Unknown, changed, t0 + 39s, t0 + 39s, ended).pulse,
            Pulse::Dead)
      << "whoever could renew for 40 s and did not is silent";
}

TEST_F(PulseTest, on_unknown_no_lease_is_a_dead_one) {
  EXPECT_EQ(feel(failed(Error::Kind::NotFound), Readiness::Unknown, 0s), Pulse::Dead);
}

TEST_F(PulseTest, what_cannot_be_read_tells_nothing) {
  for (const auto kind : {Error::Kind::Forbidden, Error::Kind::Retryable, Error::Kind::Malformed,
                          Error::Kind::Invalid, Error::Kind::Unknown}) {
    EXPECT_EQ(feel(failed(kind), Readiness::Unknown, 0s), Pulse::Unread);
    EXPECT_EQ(feel(failed(kind), Readiness::False, 1h), Pulse::Unread);
  }
}

TEST_F(PulseTest, a_later_renewal_is_dead_when_it_has_stood_still_for_its_duration) {
  const auto seen = lease(changed + 3s, 15s);
  const auto found = watch.feel(seen, Readiness::Unknown, changed, t0, t0 + way);
  EXPECT_EQ(found.pulse, Pulse::Alive);
  EXPECT_EQ(found.dead_at, t0 + way + 15s);  // from the arrival of one to the departure of another
  EXPECT_EQ(feel(seen, Readiness::Unknown, 15s + way - 1ns), Pulse::Alive);
  EXPECT_EQ(feel(seen, Readiness::Unknown, 15s + way), Pulse::Dead);
}

TEST_F(PulseTest, each_renewal_begins_anew) {
  (void)feel(lease(changed + 1s), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(lease(changed + 39s), Readiness::Unknown, 39s), Pulse::Alive);
  EXPECT_EQ(feel(lease(changed + 39s), Readiness::Unknown, 78s), Pulse::Alive);
  EXPECT_EQ(feel(lease(changed + 39s), Readiness::Unknown, 80s), Pulse::Dead);
  EXPECT_EQ(feel(lease(changed + 80s), Readiness::Unknown, 81s), Pulse::Alive);
}

TEST_F(PulseTest, a_kubelet_that_says_no_lives_until_its_lease_has_stood_still) {
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    watch = {};
    EXPECT_EQ(feel(lease(changed - 5s), readiness, 0s), Pulse::Alive);
    EXPECT_EQ(feel(lease(changed - 5s), readiness, 40s), Pulse::Alive);
    EXPECT_EQ(feel(lease(changed - 5s), readiness, 40s + way), Pulse::Dead);
    watch = {};
    EXPECT_EQ(feel(failed(Error::Kind::NotFound), readiness, 0s), Pulse::Alive);
    EXPECT_EQ(feel(failed(Error::Kind::NotFound), readiness, 41s), Pulse::Dead);
    EXPECT_EQ(feel(lease(changed - 5s), readiness, 42s), Pulse::Alive);  // it made itself one
  }
}

TEST_F(PulseTest, without_stamps_or_a_duration_only_time_tells) {
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 0s), Pulse::Alive);
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 39s), Pulse::Alive);
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 41s), Pulse::Dead);
  EXPECT_EQ(watch.feel(lease(changed - 1h), Readiness::Unknown, std::nullopt, t0, t0).pulse,
            Pulse::Alive);
}

TEST_F(PulseTest, an_unread_lease_in_between_proves_nothing_and_forgets_nothing) {
  (void)feel(lease(changed + 1s), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(failed(Error::Kind::Retryable), Readiness::Unknown, 41s), Pulse::Unread);
  EXPECT_EQ(feel(lease(changed + 1s), Readiness::Unknown, 42s), Pulse::Dead);
}

TEST_F(PulseTest, the_same_stamp_in_another_lease_is_another_beat) {
  (void)feel(lease(changed + 1s, 40s, "l1"), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(lease(changed + 1s, 40s, "l2"), Readiness::Unknown, 41s), Pulse::Alive);
}

}  // namespace
}  // namespace moonfence::fence
