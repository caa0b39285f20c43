#include "fence/brake/brake.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using cluster::Census;
using cluster::NodeView;
using cluster::Readiness;

struct BrakeTest : testing::Test {
  Moment now = Moment{} + 1h;
  BrakeRules rules;
  std::optional<Brake> brake;
  std::vector<Brake::Place> places;

  static NodeView node(bool down, const std::string& zone = "", bool control_plane = false) {
    NodeView view;
    view.readiness = down ? Readiness::Unknown : Readiness::True;
    view.zone = zone;
    view.control_plane = control_plane;
    return view;
  }
  static void add(Census& census, int workers, int down, const std::string& zone = "") {
    for (int i = 0; i < workers; ++i) {
      census.add(node(i < down, zone));
    }
  }
  static Census of(int workers, int down, const std::string& zone = "") {
    Census census;
    add(census, workers, down, zone);
    return census;
  }
  void set(int workers, int down) { told().count(of(workers, down), now); }
  Brake& told() { return brake ? *brake : brake.emplace(rules); }

  std::optional<Reason> ask(const std::string& name, const std::string& zone = "") {
    return told().refuse({.node = NodeName(name), .zone = zone}, now);
  }
  void begin(const std::string& name, const std::string& zone = "") {
    places.push_back(told().begin({.node = NodeName(name), .zone = zone}));
  }
  // Fenced from beginning to end.
  void fence(const std::string& name, const std::string& zone = "") {
    const Brake::Place place = told().begin({.node = NodeName(name), .zone = zone});
    told().acted({.node = NodeName(name), .zone = zone}, now);
  }
  ~BrakeTest() override { places.clear(); }
};

TEST_F(BrakeTest, before_the_nodes_were_counted_nothing_may_be_fenced) {
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  set(5, 1);
  EXPECT_EQ(ask("n1"), std::nullopt);
}

TEST_F(BrakeTest, a_suspicion_stops_everything_for_the_cool_down) {
  set(5, 1);
  EXPECT_FALSE(told().too_many_with(1, 1));
  EXPECT_TRUE(told().too_many_with(2, 2));
  told().suspect(now);
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  EXPECT_EQ(told().next_release(now), now + 10s);
  now += 10s - 1ns;
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  now += 1ns;
  EXPECT_EQ(ask("n1"), std::nullopt);
}

TEST_F(BrakeTest, without_a_cool_down_a_suspicion_lasts_a_second) {
  rules.cool_down = 0s;
  set(5, 1);
  told().suspect(now);
  now += 1s - 1ns;
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  now += 1ns;
  EXPECT_EQ(ask("n1"), std::nullopt);
}

TEST_F(BrakeTest, without_a_limit_nobody_is_counted) {
  EXPECT_TRUE(told().limits_down());
  brake.reset();
  rules.max_down = Limit::off();
  set(5, 1);
  EXPECT_FALSE(told().limits_down());
  EXPECT_FALSE(told().too_many_with(4, 4));
}

TEST_F(BrakeTest, more_than_half_of_the_workers_down_stops_everything) {  // row E-22
  const auto answer = [this](int workers, int down) {
    brake.reset();
    set(workers, down);
    return ask("n1");
  };
  EXPECT_EQ(answer(3, 1), std::nullopt);
  EXPECT_EQ(answer(3, 2), Reason::TooManyDown);
  EXPECT_EQ(answer(2, 1), std::nullopt);  // half is not more than half
  EXPECT_EQ(answer(1, 1), Reason::TooManyDown);
  EXPECT_EQ(answer(5000, 2500), std::nullopt);
  EXPECT_EQ(answer(5000, 2501), Reason::TooManyDown);
}

TEST_F(BrakeTest, a_number_of_nodes_limits_as_a_share_does) {
  rules.max_down = Limit::of(3);
  set(100, 3);
  EXPECT_EQ(ask("n1"), std::nullopt);
  set(100, 4);
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
}

TEST_F(BrakeTest, nodes_of_the_control_plane_are_not_counted) {
  Census census = of(2, 1);
  for (int i = 0; i < 3; ++i) {
    census.add(node(true, "", /*control_plane=*/true));
  }
  told().count(census, now);
  EXPECT_EQ(ask("n1"), std::nullopt);
}

TEST_F(BrakeTest, machines_that_were_switched_off_long_ago_count_as_nothing) {
  Census census = of(3, 0);
  for (int i = 0; i < 5; ++i) {
    NodeView off = node(true);
    off.standing.fell = now - i * 3h;
    census.add(off);
  }
  now += 15min;
  told().count(census, now);
  EXPECT_EQ(ask("n1"), std::nullopt);
  EXPECT_EQ(told().newly_down().workers, 3);
}

TEST_F(BrakeTest, dedicated_machines_do_not_make_the_workers_look_better_and_storms_in_them_count) {
  Census census = of(3, 2);
  NodeView gpu = node(false);
  gpu.standing.group = cluster::Standing::Group::Dedicated;
  for (int i = 0; i < 20; ++i) {
    census.add(gpu);
  }
  told().count(census, now);
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  EXPECT_FALSE(told().newly_down().dedicated_too);

  brake.reset();
  census = of(3, 0);
  gpu.readiness = Readiness::Unknown;
  for (int i = 0; i < 4; ++i) {
    census.add(gpu);
  }
  told().count(census, now);
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  EXPECT_EQ(told().newly_down().text().substr(0, 32), "4 of 7 machines are newly down: ");
}

TEST_F(BrakeTest, it_names_who_is_newly_down) {
  Census census = of(2, 0);
  for (const char* name : {"b", "a", "c"}) {
    NodeView down = node(true);
    down.name = NodeName(name);
    census.add(down);
  }
  told().count(census, now);
  EXPECT_EQ(told().newly_down().text(), "3 of 5 workers are newly down: a, b, c");
}

TEST_F(BrakeTest, it_lets_go_when_the_numbers_have_been_good_for_the_cool_down) {
  set(3, 2);
  now += 1h;
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  EXPECT_EQ(told().next_release(now), std::nullopt);  // time alone mends nothing
  set(3, 1);
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  EXPECT_EQ(told().next_release(now), now + 10s);
  now += 10s - 1ns;
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  now += 1ns;
  EXPECT_EQ(ask("n1"), std::nullopt);
  EXPECT_EQ(told().next_release(now), std::nullopt);
}

TEST_F(BrakeTest, a_number_that_swings_begins_the_cool_down_again) {
  set(3, 2);
  set(3, 1);
  now += 9s;
  set(3, 2);
  set(3, 1);
  now += 9s;
  EXPECT_EQ(ask("n1"), Reason::TooManyDown);
  now += 1s;
  EXPECT_EQ(ask("n1"), std::nullopt);
  now += 1h;
  set(4, 1);  // good news do not begin it
  EXPECT_EQ(ask("n1"), std::nullopt);
}

TEST_F(BrakeTest, so_many_nodes_at_once_and_no_more) {  // row E-14
  set(100, 8);
  for (const char* name : {"n1", "n2", "n3", "n4", "n5"}) {
    EXPECT_EQ(ask(name), std::nullopt);
    begin(name);
  }
  EXPECT_EQ(ask("n6"), Reason::TooManyAtOnce);
  EXPECT_EQ(ask("n5"), std::nullopt);  // those that have begun go on
  places.erase(places.begin());
  EXPECT_EQ(ask("n6"), std::nullopt);
  EXPECT_EQ(ask("n1"), std::nullopt);
  begin("n6");
  EXPECT_EQ(ask("n1"), Reason::TooManyAtOnce);  // it has ended; it begins like any other
}

TEST_F(BrakeTest, a_deletion_under_way_keeps_the_node_s_place) {
  rules.cluster.at_once = Limit::of(1);
  set(100, 8);
  int room = 0;
  told().on_room(this, [&room] { ++room; });
  begin("n1");  // the pass
  begin("n1");  // its deletion
  places.erase(places.begin());
  EXPECT_EQ(ask("n2"), Reason::TooManyAtOnce);
  EXPECT_EQ(room, 0);
  places.clear();
  EXPECT_EQ(ask("n2"), std::nullopt);
  EXPECT_EQ(room, 1);
  told().on_room(this, nullptr);
}

TEST_F(BrakeTest, so_many_nodes_within_the_window_and_no_more) {
  set(100, 40);
  for (int i = 0; i < 9; ++i) {
    fence("n" + std::to_string(i));
  }
  EXPECT_EQ(ask("a"), std::nullopt);
  begin("a");
  EXPECT_EQ(ask("b"), Reason::TooManyInWindow);  // what is being fenced counts already
  EXPECT_EQ(ask("n3"), std::nullopt);            // it has its place in the window
  places.clear();
  EXPECT_EQ(ask("b"), std::nullopt);  // nothing was done to `a`
  now += 1min;
  fence("a");
  EXPECT_EQ(ask("b"), Reason::TooManyInWindow);
  EXPECT_EQ(told().next_release(now), now + 9min);
  now += 9min;
  EXPECT_EQ(ask("b"), std::nullopt);
  now += 1min;
  EXPECT_EQ(told().next_release(now), std::nullopt);
}

TEST_F(BrakeTest, a_share_limits_by_the_size_of_the_cluster_and_leaves_room_for_one) {
  rules.cluster.at_once = Limit::share(10);
  set(30, 4);
  begin("n1");
  begin("n2");
  EXPECT_EQ(ask("n3"), std::nullopt);
  begin("n3");
  EXPECT_EQ(ask("n4"), Reason::TooManyAtOnce);
  places.clear();
  set(4, 2);
  EXPECT_EQ(ask("n1"), std::nullopt);
  begin("n1");
  EXPECT_EQ(ask("n2"), Reason::TooManyAtOnce);
}

TEST_F(BrakeTest, in_a_disrupted_zone_one_node_at_a_time) {
  Census census = of(20, 0, "b");
  add(census, 5, 3, "a");
  told().count(census, now);
  EXPECT_EQ(told().disrupted_zones(now), 1U);
  begin("a1", "a");
  EXPECT_EQ(ask("a1", "a"), std::nullopt);
  EXPECT_EQ(ask("a2", "a"), Reason::ZoneDisrupted);
  EXPECT_EQ(ask("b1", "b"), std::nullopt);
  EXPECT_EQ(ask("x1"), std::nullopt);  // in no zone
}

TEST_F(BrakeTest, a_zone_is_disrupted_when_both_the_number_and_the_share_are_exceeded) {
  const auto disrupted = [this](int workers, int down) {
    brake.reset();
    Census census = of(50, 0, "b");
    add(census, workers, down, "a");
    told().count(census, now);
    return told().disrupted_zones(now) == 1;
  };
  EXPECT_FALSE(disrupted(2, 2));  // not more than two
  EXPECT_TRUE(disrupted(3, 3));
  EXPECT_TRUE(disrupted(5, 3));     // 60 %
  EXPECT_FALSE(disrupted(6, 3));    // 50 %
  EXPECT_FALSE(disrupted(20, 11));  // 55 % is not more than 55 %
  EXPECT_TRUE(disrupted(20, 12));
}

TEST_F(BrakeTest, a_zone_that_is_disrupted_in_the_middle_stops_all_but_the_first) {
  Census census = of(20, 0, "b");
  add(census, 6, 2, "a");
  told().count(census, now);
  begin("a1", "a");
  begin("a2", "a");
  EXPECT_EQ(ask("a2", "a"), std::nullopt);
  census.remove(node(false, "a"));
  census.add(node(true, "a"));
  census.remove(node(false, "a"));
  census.add(node(true, "a"));
  told().count(census, now);
  EXPECT_EQ(ask("a1", "a"), std::nullopt);
  EXPECT_EQ(ask("a2", "a"), Reason::ZoneDisrupted);
}

TEST_F(BrakeTest, a_zone_too_has_its_cool_down) {
  Census census = of(20, 0, "b");
  add(census, 4, 3, "a");
  told().count(census, now);
  begin("a1", "a");
  Census better = of(20, 0, "b");
  add(better, 4, 2, "a");
  told().count(better, now);
  EXPECT_EQ(ask("a2", "a"), Reason::ZoneDisrupted);
  EXPECT_EQ(told().next_release(now), now + 10s);
  now += 10s;
  EXPECT_EQ(ask("a2", "a"), std::nullopt);
}

TEST_F(BrakeTest, a_zone_may_have_a_pace_of_its_own) {
  rules.zone = {.at_once = Limit::of(1), .per_window = Limit::of(2)};
  Census census = of(20, 2, "a");
  add(census, 20, 2, "b");
  told().count(census, now);
  begin("a1", "a");
  EXPECT_EQ(ask("a2", "a"), Reason::TooManyAtOnce);
  EXPECT_EQ(ask("b1", "b"), std::nullopt);
  places.clear();
  fence("a1", "a");
  fence("a2", "a");
  EXPECT_EQ(ask("a3", "a"), Reason::TooManyInWindow);
  EXPECT_EQ(ask("b1", "b"), std::nullopt);
}

TEST_F(BrakeTest, each_limit_can_be_switched_off) {
  rules = {.max_down = Limit::off(),
           .cluster = {},
           .zone_max_down = Limit::off(),
           .zone_min_down = 0,
           .zone = {}};
  Census census = of(30, 30, "a");
  told().count(census, now);
  for (int i = 0; i < 20; ++i) {
    fence("n" + std::to_string(i), "a");
    begin("n" + std::to_string(i), "a");
  }
  EXPECT_EQ(ask("other", "a"), std::nullopt);
}

}  // namespace
}  // namespace moonfence::fence
