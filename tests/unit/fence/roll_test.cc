// Who is as silent as the node in question, whatever the clocks say.

#include "fence/roll.h"

#include <gtest/gtest.h>

#include "fence/pulse.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;

struct RollTest : testing::Test {
  Roll roll;
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
    roll.take(signs, now, server);
  }
  [[nodiscard]] std::int64_t silent_beside(Duration age) const {
    return roll.silent_beside(age, [](const NodeName& name) { return name != NodeName("dead"); });
  }
};

TEST_F(RollTest, half_as_old_is_silent) {
  renewed("dead", 40s);
  renewed("n1", 20s);
  renewed("n2", 19999ms);
  renewed("n3", 39s);
  list_after();
  EXPECT_EQ(silent_beside(40s), 2);
}

TEST_F(RollTest, graces_of_a_test_are_as_good_as_those_of_a_cluster) {
  renewed("n1", 1s);
  renewed("n2", 2s);
  list_after();
  EXPECT_EQ(silent_beside(4s), 1);
}

TEST_F(RollTest, a_healthy_cluster_beside_one_dead_node_is_quiet) {
  for (int i = 0; i < 100; ++i) {
    renewed("n" + std::to_string(i), i * 100ms);
  }
  list_after();
  EXPECT_EQ(silent_beside(40s), 0);
}

TEST_F(RollTest, a_lease_without_a_stamp_says_nothing) {
  roll.take({.leases = {{.name = "n1", .renewed = std::nullopt}}}, now, server);
  EXPECT_EQ(silent_beside(40s), 0);
}

TEST_F(RollTest, a_node_is_as_old_as_its_unknown_and_an_absent_lease_has_run_out) {
  list_after();
  EXPECT_EQ(roll.age_of(server - 50s, server - 10s), 50s);
  EXPECT_EQ(roll.age_of(server + 1h, server - 25s), 25s);
  EXPECT_EQ(roll.age_of(std::nullopt, server), kLeaseDuration);
  EXPECT_EQ(roll.age_of(server - 50s, std::nullopt), 50s);
}

TEST_F(RollTest, a_clock_that_is_behind_looks_silent_until_it_is_seen_to_move) {
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
TEST_F(RollTest, a_server_that_lags_makes_no_renewal) {
  for (int turn = 0; turn < 6; ++turn) {
    const bool lags = turn % 2 != 0;
    roll.take({.leases = {{.name = "n1",
                           .renewed = server - (lags ? 60s : 30s),
                           .version = ResourceVersion(lags ? "100" : "130")}}},
              now, server);
    EXPECT_EQ(silent_beside(40s), 1) << turn;
    now += 1s;
  }
  roll.take({.leases = {{.name = "n1", .renewed = server - 1h, .version = ResourceVersion("140")}}},
            now, server);
  EXPECT_EQ(silent_beside(40s), 0) << "it was renewed, whatever its clock says";
}

TEST_F(RollTest, a_clock_that_is_ahead_hides_itself_only) {
  renewed("n1", -1h);
  renewed("n2", 30s);
  list_after();
  EXPECT_EQ(silent_beside(40s), 1);
}

TEST_F(RollTest, a_node_that_is_gone_from_the_list_is_forgotten) {
  renewed("n1", 40s);
  list_after();
  stamps.clear();
  list_after(1s);
  EXPECT_EQ(silent_beside(40s), 0);
}

}  // namespace
}  // namespace moonfence::fence
