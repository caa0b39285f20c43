#include "fence/leases/kubelet_lease.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using cluster::Readiness;

struct KubeletLeaseTest : testing::Test {
  LeaseWatch watch;
  Moment t0 = Moment{} + 1h;
  WallTime stamp = WallTime(1767330000s);
  Duration way = 20ms;                // of each reading
  std::optional<Moment> unwritten{};  // since when the Lease was not written, by the store
  std::optional<Moment> down = t0;    // when the node was called down

  static Result<kube::Lease> lease(std::optional<WallTime> renewed, Duration duration = 40s,
                                   const std::string& uid = "l1") {
    kube::Lease made;
    made.uid = Uid(uid);
    made.record.renewed = renewed;
    made.record.duration = duration;
    return made;
  }
  static Result<kube::Lease> failed(Error::Kind kind) { return failure(kind, "no"); }

  LeaseWatch::Finding find(const Result<kube::Lease>& seen, Readiness readiness, Duration sent,
                           std::optional<Moment> outage_ended = std::nullopt) {
    return watch.feel(
        seen, readiness,
        {.unwritten_since = unwritten, .heard_down = down, .outage_ended = outage_ended}, t0 + sent,
        t0 + sent + way);
  }
  KubeletLease feel(const Result<kube::Lease>& seen, Readiness readiness, Duration sent) {
    return find(seen, readiness, sent).kubelet_lease;
  }
};

TEST_F(KubeletLeaseTest,
       on_unknown_a_lease_that_was_not_written_for_half_of_its_duration_is_dead_at_once) {
  unwritten = t0 - 20s;
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 0s), KubeletLease::Dead);
  watch = {};
  unwritten = t0 - 20s + 1ns;
  const auto found = find(lease(stamp), Readiness::Unknown, 0s);
  EXPECT_EQ(found.kubelet_lease, KubeletLease::Alive);
  EXPECT_EQ(found.dead_at, *unwritten + 40s);
  // Found alive, it has the whole of it.
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 20s - 1s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 20s + 1ns), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, since_when_it_stands_still_is_told_of_a_living_one_too) {
  unwritten = t0 - 5s;
  EXPECT_EQ(find(lease(stamp), Readiness::Unknown, 0s).since, t0 - 5s);
  EXPECT_EQ(find(lease(stamp), Readiness::Unknown, 40s).since, t0 - 5s);
  EXPECT_EQ(find(failed(Error::Kind::Retryable), Readiness::Unknown, 41s).since, std::nullopt);
}

// Requests of its kubelet were lost for so long that Kubernetes called it Unknown; then it renewed
// its Lease, which was not read before half of its duration was over. Its pods were deleted.
TEST_F(KubeletLeaseTest, whoever_renews_after_being_called_unknown_has_the_whole_duration) {
  down = t0 - 21s;
  unwritten = t0 - 20s;
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 0s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 20s - 1ns), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 20s), KubeletLease::Dead);
  watch = {};
  down = t0 - 20s;
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 0s), KubeletLease::Dead);
}

// By a replica that has just started, for example: what it has seen itself is all it knows.
TEST_F(KubeletLeaseTest, of_a_node_that_was_found_down_nobody_knows_what_came_first) {
  down = std::nullopt;
  unwritten = t0 - 20s;
  EXPECT_EQ(feel(lease(stamp), Readiness::Unknown, 0s), KubeletLease::Dead);
}

// A clock that was put back by an hour: kube-controller-manager compares the stamps and calls the
// node Unknown; its kubelet lives.
TEST_F(KubeletLeaseTest, a_lease_that_moves_is_alive_whatever_its_stamps_say) {
  for (const Duration off : std::initializer_list<Duration>{-24h, -1h, -1min, 0min, 1min, 1h}) {
    watch = {};
    for (int beat = 0; beat < 30; ++beat) {
      const Duration at = beat * 10s;
      unwritten = t0 + at - 9s;
      EXPECT_EQ(feel(lease(stamp + off + at), Readiness::Unknown, at), KubeletLease::Alive);
    }
  }
}

// In either direction.
TEST_F(KubeletLeaseTest, a_stamp_of_the_future_keeps_nobody_alive) {
  unwritten = t0 - 50s;
  EXPECT_EQ(feel(lease(stamp + 24h), Readiness::Unknown, 0s), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, without_a_history_of_the_store_only_what_was_seen_counts) {
  EXPECT_EQ(feel(lease(stamp - 24h), Readiness::Unknown, 0s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp - 24h), Readiness::Unknown, 40s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp - 24h), Readiness::Unknown, 40s + way), KubeletLease::Dead);
}

// etcd stood still for 30 s: no kubelet could renew, and kube-controller-manager called the first
// node Unknown before its kubelet had. Its pods were deleted 42 ms later.
TEST_F(KubeletLeaseTest, after_an_outage_a_lease_that_nobody_could_renew_proves_nothing) {
  unwritten = t0 - 35s;
  const Moment ended = t0 - 1s;
  const auto found = find(lease(stamp), Readiness::Unknown, 0s, ended);
  EXPECT_EQ(found.kubelet_lease, KubeletLease::Alive);
  EXPECT_EQ(found.dead_at, ended + 40s);
  EXPECT_EQ(find(failed(Error::Kind::NotFound), Readiness::Unknown, 0s, ended).kubelet_lease,
            KubeletLease::Alive);
  EXPECT_EQ(find(lease(stamp), Readiness::Unknown, 39s, ended).kubelet_lease, KubeletLease::Dead)
      << "whoever could renew for 40 s and did not is silent";
}

// A simulated world: etcd was restored, and 0.2 s later a living kubelet's Lease was read as it
// stood in the backup, which its version said nobody had written for 25 s.
TEST_F(KubeletLeaseTest, what_a_restored_store_shows_proves_nothing) {
  auto newer = lease(stamp + 20s);
  newer->version = ResourceVersion("300");
  auto older = lease(stamp);
  older->version = ResourceVersion("299");
  EXPECT_EQ(feel(newer, Readiness::False, 0s), KubeletLease::Alive);
  unwritten = t0 - 60s;
  EXPECT_EQ(feel(older, Readiness::False, 5s), KubeletLease::Alive);
  EXPECT_EQ(feel(older, Readiness::False, 44s), KubeletLease::Alive);
  EXPECT_EQ(feel(older, Readiness::False, 45s + way), KubeletLease::Dead)
      << "whoever could renew for 40 s and did not is silent";
}

// It was dead at once: a Lease that somebody had just deleted, and that of a kubelet that may not
// write any.
TEST_F(KubeletLeaseTest, on_unknown_no_lease_is_one_that_stands_still) {
  const auto none = failed(Error::Kind::NotFound);
  EXPECT_EQ(feel(none, Readiness::Unknown, 0s), KubeletLease::Alive);
  EXPECT_EQ(feel(none, Readiness::Unknown, 19s), KubeletLease::Alive);
  EXPECT_EQ(feel(none, Readiness::Unknown, 41s), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, a_lease_that_was_alive_and_is_deleted_has_moved) {
  (void)feel(lease(stamp + 1s), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(failed(Error::Kind::NotFound), Readiness::Unknown, 39s), KubeletLease::Alive);
  EXPECT_EQ(feel(failed(Error::Kind::NotFound), Readiness::Unknown, 78s), KubeletLease::Alive);
  EXPECT_EQ(feel(failed(Error::Kind::NotFound), Readiness::Unknown, 80s), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, what_cannot_be_read_tells_nothing) {
  for (const auto kind : {Error::Kind::Forbidden, Error::Kind::Retryable, Error::Kind::Malformed,
                          Error::Kind::Invalid, Error::Kind::Unknown}) {
    EXPECT_EQ(feel(failed(kind), Readiness::Unknown, 0s), KubeletLease::Unread);
    EXPECT_EQ(feel(failed(kind), Readiness::False, 1h), KubeletLease::Unread);
  }
}

TEST_F(KubeletLeaseTest, a_later_renewal_is_dead_when_it_has_stood_still_for_its_duration) {
  const auto seen = lease(stamp + 3s, 15s);
  const auto found = find(seen, Readiness::Unknown, 0s);
  EXPECT_EQ(found.kubelet_lease, KubeletLease::Alive);
  EXPECT_EQ(found.dead_at, t0 + way + 15s);  // from the arrival of one to the departure of another
  EXPECT_EQ(feel(seen, Readiness::Unknown, 15s + way - 1ns), KubeletLease::Alive);
  EXPECT_EQ(feel(seen, Readiness::Unknown, 15s + way), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, each_renewal_begins_anew) {
  (void)feel(lease(stamp + 1s), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(lease(stamp + 39s), Readiness::Unknown, 39s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp + 39s), Readiness::Unknown, 78s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(stamp + 39s), Readiness::Unknown, 80s), KubeletLease::Dead);
  EXPECT_EQ(feel(lease(stamp + 80s), Readiness::Unknown, 81s), KubeletLease::Alive);
}

TEST_F(KubeletLeaseTest, a_kubelet_that_says_no_lives_until_its_lease_has_stood_still) {
  for (const Readiness readiness : {Readiness::False, Readiness::Missing}) {
    watch = {};
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 0s), KubeletLease::Alive);
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 40s), KubeletLease::Alive);
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 40s + way), KubeletLease::Dead);
    watch = {};
    EXPECT_EQ(feel(failed(Error::Kind::NotFound), readiness, 0s), KubeletLease::Alive);
    EXPECT_EQ(feel(failed(Error::Kind::NotFound), readiness, 41s), KubeletLease::Dead);
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 42s), KubeletLease::Alive);  // it made itself one
    watch = {};
    unwritten = t0 - 39s;
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 0s), KubeletLease::Alive);
    EXPECT_EQ(feel(lease(stamp - 5s), readiness, 1s), KubeletLease::Dead);
    unwritten.reset();
  }
}

TEST_F(KubeletLeaseTest, without_stamps_or_a_duration_only_time_tells) {
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 0s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 39s), KubeletLease::Alive);
  EXPECT_EQ(feel(lease(std::nullopt, 0s), Readiness::Unknown, 41s), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, an_unread_lease_in_between_proves_nothing_and_forgets_nothing) {
  (void)feel(lease(stamp + 1s), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(failed(Error::Kind::Retryable), Readiness::Unknown, 41s), KubeletLease::Unread);
  EXPECT_EQ(feel(lease(stamp + 1s), Readiness::Unknown, 42s), KubeletLease::Dead);
}

TEST_F(KubeletLeaseTest, the_same_stamp_in_another_lease_is_another_beat) {
  (void)feel(lease(stamp + 1s, 40s, "l1"), Readiness::Unknown, 0s);
  EXPECT_EQ(feel(lease(stamp + 1s, 40s, "l2"), Readiness::Unknown, 41s), KubeletLease::Alive);
}

}  // namespace
}  // namespace moonfence::fence
