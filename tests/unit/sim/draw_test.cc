#include "sim/draw.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "port/seeded_random.h"
#include "sim/reach.h"
#include "sim/settling.h"

namespace moonfence::sim {
namespace {

TEST(Draw, the_default_world_is_as_large_as_it_says) {
  EXPECT_EQ(describe(default_world()),
            "5 nodes, 20 pods, 10 volumes, 1 engine(s), 1 server(s), 1 steps, 2m");
  EXPECT_EQ(settling_time(default_world()), std::chrono::seconds(60));
}

TEST(Draw, the_same_seed_gives_the_same_plan_and_another_one_another) {
  EXPECT_EQ(describe(draw(7)), describe(draw(7)));
  EXPECT_EQ(draw(7).steps.size(), draw(7).steps.size());
  EXPECT_EQ(draw(7).policies, draw(7).policies);
  int different = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    different += describe(draw(seed)) != describe(draw(seed + 1)) ? 1 : 0;
  }
  EXPECT_GT(different, 15);
}

TEST(Draw, every_run_ends_calm_for_long_enough_to_be_judged) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = draw(seed);
    ASSERT_FALSE(plan.steps.empty());
    EXPECT_EQ(plan.steps.back().verb, Verb::Calm) << seed;
    EXPECT_TRUE(std::is_sorted(plan.steps.begin(), plan.steps.end(),
                               [](const Step& a, const Step& b) { return a.at < b.at; }));
    EXPECT_GT(plan.length - plan.steps.back().at, settling_time(plan)) << seed;
  }
}

TEST(Draw, some_worlds_are_calm_and_some_are_not) {
  int calm = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    calm += is_calm(draw(seed).faults) ? 1 : 0;
  }
  EXPECT_GT(calm, 15);
  EXPECT_LT(calm, 60);
}

TEST(Draw, drawn_policies_can_be_read) {
  port::SeededRandom random(3);
  for (int i = 0; i < 50; ++i) {
    const auto reach = read_reach(draw_policies(random));
    ASSERT_NE(reach, nullptr);
    EXPECT_FALSE(reach->bindings.empty());
  }
}

}  // namespace
}  // namespace moonfence::sim
