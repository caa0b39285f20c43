// Who is as silent as the node in question, whatever the clocks say.

#include "fence/leases/peer_leases.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

struct PeerLeasesTest : testing::Test {
  kube::Revisions revisions;
  PeerLeases peers{revisions};
  Moment now{};
  WallTime server = WallTime(1767330000s);
  std::map<std::string, WallTime> stamps;

  // A Lease that is so old by its stamp now.
  void renewed(const std::string& node, Duration ago) { stamps[node] = server - ago; }
  void list_after(Duration pause = {}) {
    now += pause;
    server += pause;
    kube::LeaseSigns signs;
    for (const auto& [name, stamp] : stamps) {
      signs.leases.push_back({.name = name, .renewed = stamp});
    }
    peers.take(signs, now, server);
  }
  [[nodiscard]] std::int64_t silent_beside(Duration age) const {
    return peers.silent_beside(age, [](const NodeName& name) { return name != NodeName("dead"); });
  }
};

TEST_F(PeerLeasesTest, half_as_old_is_silent) {
  renewed("dead", 40s);
  renewed("n1", 20s);
  renewed("n2", 19999ms);
  renewed("n3", 39s);
  list_after();
  EXPECT_EQ(silent_beside(40s), 2);
}

// Of a Lease that names 40 s: a kubelet renews it every ten, give or take 4 %.
TEST_F(PeerLeasesTest,
       overdue_is_what_is_proven_to_have_stood_still_for_longer_than_a_renewal_takes) {
  const auto list = [this](std::int64_t version, Duration duration) {
    peers.take({.leases = {{.name = "n1",
                            .renewed = server,
                            .version = ResourceVersion(std::to_string(version)),
                            .duration = duration}}},
               now, server);
    return peers.is_overdue(NodeName("n1"));
  };
  now += 1h;
  (void)revisions.note(ResourceVersion("10"), now, now);
  EXPECT_FALSE(list(11, 40s)) << "the store was not seen with it yet";
  (void)revisions.note(ResourceVersion("20"), now, now);
  now += 11400ms;
  EXPECT_FALSE(list(11, 40s));
  now += 1ms;
  EXPECT_TRUE(list(11, 40s));
  EXPECT_TRUE(list(11, 0s)) << "one that names none is like a kubelet's own";
  EXPECT_FALSE(list(11, 120s)) << "renewed every thirty seconds";
  EXPECT_FALSE(list(21, 40s)) << "it was renewed";
  EXPECT_FALSE(peers.is_overdue(NodeName("n2"))) << "there is none";
}

TEST_F(PeerLeasesTest, one_in_ten_of_the_others_may_be_late) {
  const auto on_time_with = [this](int late) {
    peers.forget();
    renewed("dead", 60s);
    for (int i = 0; i < 10; ++i) {
      renewed("n" + std::to_string(i), i < late ? 30s : 5s);
    }
    list_after();
    return peers.are_others_on_time(NodeName("dead"), [](const NodeName&) { return true; });
  };
  EXPECT_TRUE(on_time_with(0));
  EXPECT_TRUE(on_time_with(1));
  EXPECT_FALSE(on_time_with(2));
}

TEST_F(PeerLeasesTest, graces_of_a_test_are_as_good_as_those_of_a_cluster) {
  renewed("n1", 1s);
  renewed("n2", 2s);
  list_after();
  EXPECT_EQ(silent_beside(4s), 1);
}

TEST_F(PeerLeasesTest, a_healthy_cluster_beside_one_dead_node_is_quiet) {
  for (int i = 0; i < 100; ++i) {
    renewed("n" + std::to_string(i), i * 100ms);
  }
  list_after();
  EXPECT_EQ(silent_beside(40s), 0);
}

TEST_F(PeerLeasesTest, a_lease_without_a_stamp_says_nothing) {
  peers.take({.leases = {{.name = "n1", .renewed = std::nullopt}}}, now, server);
  EXPECT_EQ(silent_beside(40s), 0);
}

TEST_F(PeerLeasesTest, a_stamp_tells_no_more_than_the_versions_leave_open) {
  now = Moment(10min);
  (void)revisions.note(ResourceVersion("100"), now - 50s, now - 50s);
  (void)revisions.note(ResourceVersion("200"), now - 40s, now - 40s);
  list_after();
  kube::Lease lease;
  lease.version = ResourceVersion("150");
  EXPECT_EQ(peers.silence_of(nullptr, 20s), 20s) << "an absent one";
  EXPECT_EQ(peers.silence_of(&lease, 30s), 30s) << "without a stamp";
  lease.record.renewed = server - 45s;
  EXPECT_EQ(peers.silence_of(&lease, 40s), 45s);
  lease.record.renewed = server - 1h;
  EXPECT_EQ(peers.silence_of(&lease, 40s), 50s);
  lease.record.renewed = server + 1h;
  EXPECT_EQ(peers.silence_of(&lease, 40s), 40s);
  lease.version = ResourceVersion("50");
  EXPECT_EQ(peers.silence_of(&lease, 40s), 40s) << "since before anything that is remembered";
}

// One whose clock is an hour off, in either direction, is as silent as its Lease is by our own.
TEST_F(PeerLeasesTest, who_is_silent_is_told_by_versions_whatever_the_stamps_say) {
  now = Moment(10min);
  (void)revisions.note(ResourceVersion("100"), now - 60s, now - 60s);
  (void)revisions.note(ResourceVersion("200"), now - 30s, now - 30s);
  (void)revisions.note(ResourceVersion("300"), now - 5s, now - 5s);
  const auto silent = [&](const char* version, Duration ahead) {
    peers.forget();
    peers.take({.leases = {{.name = "n1",
                            .renewed = server + ahead,
                            .version = ResourceVersion(version)}}},
               now, server);
    return silent_beside(40s);
  };
  for (const Duration ahead : {Duration(-1h), Duration::zero(), Duration(1h)}) {
    EXPECT_EQ(silent("50", ahead), 1) << "since before anything that is remembered";
    EXPECT_EQ(silent("150", ahead), 1);
    EXPECT_EQ(silent("400", ahead), 0);
  }
  EXPECT_EQ(silent("250", -1h), 1) << "perhaps since 30 s";
  EXPECT_EQ(silent("250", -8s), 0);
}

TEST_F(PeerLeasesTest, a_clock_that_is_behind_looks_silent_until_it_is_seen_to_move) {
  renewed("n1", 1h);
  list_after();
  EXPECT_EQ(silent_beside(40s), 1);
  renewed("n1", 1h - 10s);  // it has renewed: the stamp moved
  list_after(10s);
  EXPECT_EQ(silent_beside(40s), 0);
  list_after(5s);  // 15 s since it was seen to be another
  EXPECT_EQ(silent_beside(40s), 0);
  list_after(10s);
  EXPECT_EQ(silent_beside(40s), 1) << "now it has stood still for long enough";
}

// Two API servers answer in turn, of which one shows what was there half a minute ago.
TEST_F(PeerLeasesTest, a_server_that_lags_makes_no_renewal) {
  for (int turn = 0; turn < 6; ++turn) {
    const bool lags = turn % 2 != 0;
    peers.take({.leases = {{.name = "n1",
                            .renewed = server - (lags ? 60s : 30s),
                            .version = ResourceVersion(lags ? "100" : "130")}}},
               now, server);
    EXPECT_EQ(silent_beside(40s), 1) << turn;
    now += 1s;
  }
  peers.take(
      {.leases = {{.name = "n1", .renewed = server - 1h, .version = ResourceVersion("140")}}}, now,
      server);
  EXPECT_EQ(silent_beside(40s), 0) << "it was renewed, whatever its clock says";
}

TEST_F(PeerLeasesTest, a_clock_that_is_ahead_hides_itself_only) {
  renewed("n1", -1h);
  renewed("n2", 30s);
  list_after();
  EXPECT_EQ(silent_beside(40s), 1);
}

TEST_F(PeerLeasesTest, a_node_that_is_gone_from_the_list_is_forgotten) {
  renewed("n1", 40s);
  list_after();
  stamps.clear();
  list_after(1s);
  EXPECT_EQ(silent_beside(40s), 0);
}

}  // namespace
}  // namespace moonfence::fence
