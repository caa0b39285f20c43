#include "sim/draw.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "port/seeded_random.h"
#include "sim/truth/reach.h"
#include "sim/truth/settling.h"

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

// How many of 300 worlds have it.
template <class Has>
int count_worlds(const Has& has) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    count += has(draw(seed)) ? 1 : 0;
  }
  return count;
}

auto with_step(Verb verb) {
  return [verb](const Plan& plan) {
    return std::any_of(plan.steps.begin(), plan.steps.end(),
                       [verb](const Step& step) { return step.verb == verb; });
  };
}

template <class Is>
auto with_node(const Is& is) {
  return [is](const Plan& plan) { return std::any_of(plan.nodes.begin(), plan.nodes.end(), is); };
}

TEST(Draw, worlds_have_machines_that_died_long_ago_and_machines_that_join) {
  EXPECT_GT(count_worlds(with_node([](const NodePlan& node) { return node.dead > Duration(); })),
            30);
  EXPECT_GT(count_worlds(with_node([](const NodePlan& node) { return node.absent; })), 30);
}

TEST(Draw, worlds_have_holds_reads_that_find_nothing_and_services_that_answer_oddly) {
  EXPECT_GT(count_worlds(with_step(Verb::HideObjects)), 30);
  EXPECT_GT(count_worlds(with_step(Verb::HoldNode)), 5);
  EXPECT_GT(count_worlds(with_step(Verb::AnnotateNode)), 5);
  EXPECT_GT(count_worlds(with_step(Verb::LabelNode)), 10);
  EXPECT_GT(count_worlds([](const Plan& plan) { return !plan.responses.empty(); }), 20);
}

TEST(Draw, in_worlds_with_fencers_every_machine_has_a_bmc_and_what_it_says_is_demanded) {
  int faulty = 0;
  int ordered = 0;
  for (std::uint64_t seed = kFirstWithFencers; seed < kFirstWithFencers + 100; ++seed) {
    const Plan plan = draw(seed);
    EXPECT_EQ(plan.bmcs.size(), plan.nodes.size());
    EXPECT_TRUE(demands(plan, "off"));
    // Longer than what was read of a machine counts.
    EXPECT_GT(plan.timings.boot, std::chrono::seconds(10));
    EXPECT_GT(plan.length - plan.steps.back().at, settling_time(plan)) << seed;
    ordered += switches_off(plan) ? 1 : 0;
    for (const BmcPlan& bmc : plan.bmcs) {
      EXPECT_NE(bmc.kind, BmcKind::Lying) << seed;
      faulty += bmc.kind != BmcKind::Honest || !bmc.of.empty() ? 1 : 0;
    }
  }
  EXPECT_GT(faulty, 100);
  EXPECT_GT(ordered, 30);
  EXPECT_LT(ordered, 70);
  EXPECT_TRUE(draw(kFirstWithFencers - 1).bmcs.empty());
  EXPECT_TRUE(draw(kLastWithFencers + 1).bmcs.empty());
}

TEST(Draw, in_the_second_quarter_of_them_a_binding_acts_on_machines_that_are_off) {
  int with_witness = 0;
  for (std::uint64_t seed = kFirstThatActOnOff; seed < kFirstThatActOnOff + 50; ++seed) {
    const Plan plan = draw(seed);
    EXPECT_NE(plan.policies.at("moonfence.yaml").find("actOn: off"), std::string::npos) << seed;
    EXPECT_TRUE(detects(plan)) << seed;
    with_witness += plan.engines > 1 ? 1 : 0;
  }
  EXPECT_GT(with_witness, 25);
  EXPECT_EQ(draw(kFirstThatLie).policies.at("moonfence.yaml").find("actOn: off"),
            std::string::npos);
}

TEST(Draw, in_the_million_after_them_what_they_say_is_told_to_others) {
  for (std::uint64_t seed = kFirstThatPublish; seed < kFirstThatPublish + 50; ++seed) {
    const Plan plan = draw(seed);
    EXPECT_NE(plan.config.find("publishEvidence: on"), std::string::npos) << seed;
    EXPECT_EQ(plan.bmcs.size(), plan.nodes.size());
    EXPECT_TRUE(std::none_of(plan.bmcs.begin(), plan.bmcs.end(), [](const BmcPlan& bmc) {
      return bmc.kind == BmcKind::Lying;
    })) << seed;
    EXPECT_TRUE(plan.fence_classes.empty()) << seed;
  }
  EXPECT_EQ(draw(kFirstThatPublish - 1).config.find("publishEvidence"), std::string::npos);
}

TEST(Draw, in_the_third_quarter_of_them_some_bmcs_lie) {
  int lying = 0;
  for (std::uint64_t seed = kFirstThatLie; seed < kFirstThatLie + 100; ++seed) {
    const Plan plan = draw(seed);
    lying += std::any_of(plan.bmcs.begin(), plan.bmcs.end(),
                         [](const BmcPlan& bmc) { return bmc.kind == BmcKind::Lying; })
                 ? 1
                 : 0;
  }
  EXPECT_GT(lying, 70);
}

TEST(Draw, in_the_last_quarter_of_them_the_storage_can_refuse_machines) {
  int isolating = 0;
  int dead = 0;
  int of_volumes = 0;
  for (std::uint64_t seed = kFirstThatIsolate; seed < kFirstThatIsolate + 100; ++seed) {
    const Plan plan = draw(seed);
    EXPECT_NE(plan.config.find("network-fence"), std::string::npos);
    EXPECT_TRUE(demands(plan, "isolated") || demands_of_volumes(plan, "isolated"));
    EXPECT_FALSE(plan.fence_classes.empty());
    for (const FenceClassPlan& each : plan.fence_classes) {
      EXPECT_NE(each.kind, FenceKind::Lying) << seed;
      dead += each.kind == FenceKind::Dead ? 1 : 0;
    }
    for (const BmcPlan& bmc : plan.bmcs) {
      EXPECT_NE(bmc.kind, BmcKind::Lying) << seed;
    }
    isolating += isolates(plan) ? 1 : 0;
    of_volumes += demands_of_volumes(plan, "isolated") ? 1 : 0;
  }
  EXPECT_GT(isolating, 30);
  EXPECT_LT(isolating, 70);
  EXPECT_GT(of_volumes, 30);
  EXPECT_GT(dead, 5);
  EXPECT_TRUE(draw(kFirstThatIsolate - 1).fence_classes.empty());
}

TEST(Draw, in_its_second_half_some_storage_lies) {
  int lying = 0;
  for (std::uint64_t seed = kFirstWhoseStorageLies; seed < kFirstWhoseStorageLies + 100; ++seed) {
    const Plan plan = draw(seed);
    lying += std::any_of(plan.fence_classes.begin(), plan.fence_classes.end(),
                         [](const FenceClassPlan& each) { return each.kind == FenceKind::Lying; })
                 ? 1
                 : 0;
  }
  EXPECT_GT(lying, 40);
}

TEST(Draw, in_most_worlds_the_last_word_is_that_pods_are_to_go) {
  const auto is_edited_at_the_end = [](const Plan& plan) {
    return std::any_of(plan.steps.begin(), plan.steps.end(), [&plan](const Step& step) {
      return step.verb == Verb::EditPolicies && step.at == plan.steps.back().at;
    });
  };
  EXPECT_GT(count_worlds(is_edited_at_the_end), 90);
}

}  // namespace
}  // namespace moonfence::sim
