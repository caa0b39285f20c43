#include "fence/fencers/fencer_check.h"

#include "unit/fence/fencers_fixture.h"

namespace moonfence::fence {
namespace {

using cluster::NodeView;

struct FencerCheckTest : FencersTest {
  std::vector<BoundFencer> fencers;
  std::map<std::string, NodeView> watched;
  std::vector<FencerCheck::Broken> broke;
  std::optional<FencerCheck> check;

  FencerCheckTest() {
    nodes.clear();
    add("n1");
  }
  void add(const std::string& name, const std::string& uid = "") {
    nodes[name] = {.ready = "True", .uid = uid.empty() ? "uid-" + name : uid, .tainted = false};
    watched[name] = view(name);
  }
  void falls(const std::string& name) {
    nodes[name].ready = "Unknown";
    watched[name] = view(name);
  }
  void open(std::vector<BoundFencer> bound_fencers) {
    fencers = std::move(bound_fencers);
    check.emplace(
        FencerCheck::Surroundings{.loop = loop,
                                  .reader = reader,
                                  .allowed_reads = allowed_reads,
                                  .endpoints = &endpoints,
                                  .log = log,
                                  .each_node =
                                      [this](const auto& tell) {
                                        for (const auto& [name, node] : watched) {
                                          tell(node);
                                        }
                                      },
                                  .now = [this] { return wall_now(); },
                                  .broke = [this](const auto& each) { broke.push_back(each); }},
        fencers);
  }
  // And leads until all were asked once.
  void begin(std::vector<BoundFencer> bound_fencers) {
    open(std::move(bound_fencers));
    check->lead();
    run_for(FencerCheck::kFirst + FencerCheck::kLook);
  }
  void once_more(Duration pause = FencerCheck::kAgain) { run_for(pause + FencerCheck::kLook); }
  // "1 0 0": works, broken, none.
  [[nodiscard]] std::string counts() const {
    const FencerCounts& each = check->told().counts;
    return std::to_string(each.works) + " " + std::to_string(each.broken) + " " +
           std::to_string(each.none);
  }
};

TEST_F(FencerCheckTest,
       a_node_is_asked_about_some_minutes_after_the_start_and_then_every_few_hours) {
  open({bound("bmc")});
  check->lead();
  run_for(FencerCheck::kFirst - 1s);
  EXPECT_EQ(http.requests.size(), 0U);
  run_for(FencerCheck::kLook);
  EXPECT_EQ(asked, Lines{"bmc/n1"});
  EXPECT_EQ(counts(), "0 0 0") << "it is told with the next look";
  run_for(FencerCheck::kLook);
  EXPECT_EQ(counts(), "1 0 0");
  run_for(FencerCheck::kEvery - 5min);
  EXPECT_EQ(asked.size(), 1U);
  run_for(10min);
  EXPECT_EQ(asked.size(), 2U);
}

TEST_F(FencerCheckTest, one_failure_is_no_fault_and_two_in_a_row_are) {
  given["bmc"] = refused();
  begin({bound("bmc")});
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_EQ(counts(), "0 0 0");
  once_more();
  EXPECT_EQ(counts(), "0 1 0");
  ASSERT_EQ(check->told().broken.size(), 1U);
  EXPECT_EQ(check->told().broken[0].node, NodeName("n1"));
  EXPECT_TRUE(check->told().broken[0].why.starts_with("bmc: unknown, "));
  once_more();
  once_more();
  ASSERT_EQ(broke.size(), 1U) << "it is told once";
  EXPECT_EQ(broke[0].uid, Uid("uid-n1"));
  EXPECT_EQ(broke[0].since, check->told().broken[0].since);
}

// A password that is refused again and again locks its account.
TEST_F(FencerCheckTest, whoever_goes_on_failing_is_asked_ever_less_often) {
  given["bmc"] = refused();
  begin({bound("bmc")});
  run_for(24h);
  EXPECT_LE(asked.size(), 10U);
  EXPECT_GE(asked.size(), 7U) << "but every six hours at least";
}

TEST_F(FencerCheckTest, failures_that_are_not_in_a_row_are_no_fault) {
  given["bmc"] = refused();
  begin({bound("bmc")});
  for (int i = 0; i < 3; ++i) {
    given["bmc"] = power("on");
    once_more();
    EXPECT_EQ(counts(), "1 0 0");
    given["bmc"] = refused();
    once_more(FencerCheck::kEvery);
    EXPECT_EQ(counts(), "1 0 0") << "once";
  }
  EXPECT_EQ(broke.size(), 0U);
}

TEST_F(FencerCheckTest, a_mended_one_is_seen_within_minutes) {
  given["bmc"] = refused();
  begin({bound("bmc")});
  once_more();
  given["bmc"] = power("on");
  once_more(2 * FencerCheck::kAgain);
  EXPECT_EQ(counts(), "1 0 0");
  EXPECT_TRUE(check->told().broken.empty());
  const std::size_t before = asked.size();
  run_for(1h);
  EXPECT_EQ(asked.size(), before);
}

TEST_F(FencerCheckTest, a_second_one_that_is_broken_is_known_though_the_first_one_answers) {
  given["cloud"] = refused();
  begin({bound("bmc"), bound("cloud")});
  EXPECT_EQ(asked, (Lines{"bmc/n1", "cloud/n1"}));
  once_more();
  EXPECT_EQ(counts(), "0 1 0");
  EXPECT_TRUE(check->told().broken[0].why.starts_with("cloud: unknown, "));
}

TEST_F(FencerCheckTest, one_that_says_off_of_a_node_that_is_ready_is_broken) {
  given["bmc"] = power("off");
  begin({bound("bmc")});
  once_more();
  EXPECT_EQ(counts(), "0 1 0");
  EXPECT_NE(check->told().broken[0].why.find("another machine"), std::string::npos);
}

// The machine of a node that has just died says off; that is no fault.
TEST_F(FencerCheckTest, only_nodes_that_are_ready_are_asked_about) {
  given["bmc"] = power("off");
  begin({bound("bmc")});
  EXPECT_EQ(asked.size(), 1U);
  falls("n1");
  add("n2");
  given["bmc/n2"] = power("on");
  run_for(FencerCheck::kEvery);
  EXPECT_EQ(asked, (Lines{"bmc/n1", "bmc/n2"}));
  EXPECT_EQ(counts(), "1 0 0");
}

TEST_F(FencerCheckTest, that_the_watch_is_late_is_seen_when_the_node_is_read) {
  open({bound("bmc")});
  check->lead();
  nodes["n1"].ready = "Unknown";
  run_for(FencerCheck::kFirst + FencerCheck::kLook);
  nodes["n1"] = {.ready = "True", .uid = "another", .tainted = false};
  once_more();
  EXPECT_EQ(asked, Lines{});
}

TEST_F(FencerCheckTest, a_node_that_cannot_be_read_says_nothing_of_its_fencers) {
  node_answer = broken();
  begin({bound("bmc")});
  once_more();
  once_more();
  EXPECT_EQ(asked, Lines{});
  EXPECT_EQ(counts(), "0 0 0");
  node_answer = {};
  once_more();
  once_more(1s);
  EXPECT_EQ(counts(), "1 0 0");
}

TEST_F(FencerCheckTest, nobody_is_asked_by_who_does_not_lead) {
  given["bmc"] = refused();
  open({bound("bmc")});
  run_for(FencerCheck::kEvery);
  EXPECT_EQ(http.requests.size(), 0U);
  check->lead();
  run_for(FencerCheck::kFirst + FencerCheck::kLook);
  once_more();
  EXPECT_EQ(counts(), "0 1 0");
  check->step_down();
  EXPECT_EQ(counts(), "0 0 0");
  const std::size_t before = http.requests.size();
  run_for(FencerCheck::kEvery);
  EXPECT_EQ(http.requests.size(), before);
}

TEST_F(FencerCheckTest, an_answer_counts_for_nobody_when_leading_is_over) {
  given["bmc"] = power("on");
  given["bmc"].delay = 4s;
  open({bound("bmc"), bound("cloud")});
  check->lead();
  run_for(FencerCheck::kFirst + 2s);
  EXPECT_EQ(asked, Lines{"bmc/n1"});
  check->step_down();
  run_for(FencerCheck::kEvery);
  EXPECT_EQ(asked, Lines{"bmc/n1"});
  EXPECT_EQ(counts(), "0 0 0");
}

TEST_F(FencerCheckTest, what_was_said_of_a_node_that_is_gone_or_made_anew_is_forgotten) {
  given["bmc"] = refused();
  add("n2");
  begin({bound("bmc")});
  once_more();
  EXPECT_EQ(counts(), "0 2 0");
  watched.erase("n2");
  add("n1", "made anew");
  run_for(FencerCheck::kLook);
  EXPECT_EQ(counts(), "0 0 0");
  run_for(FencerCheck::kFirst);
  EXPECT_EQ(counts(), "0 0 0") << "its first failure";
  once_more();
  EXPECT_EQ(counts(), "0 1 0");
}

TEST_F(FencerCheckTest, an_answer_about_the_node_before_it_counts_for_nobody) {
  given["bmc/n1"] = power("on");
  given["bmc/n1"].delay = 4s;
  for (int i = 0; i < 57; ++i) {
    add("a-" + std::to_string(i));  // each comes before it, one a second
  }
  open({bound("bmc")});
  check->lead();
  run_for(FencerCheck::kFirst + 58s);
  EXPECT_EQ(asked.size(), 58U);
  watched["n1"].uid = Uid("made anew");  // which is seen before the answer comes
  run_for(2min);
  EXPECT_EQ(counts(), "57 0 0");
}

TEST_F(FencerCheckTest, a_node_without_a_fencer_is_counted_and_nobody_is_asked) {
  begin({bound("bmc", "rack=5")});
  run_for(FencerCheck::kLook);
  EXPECT_EQ(counts(), "0 0 1");
  EXPECT_EQ(asked, Lines{});
}

// A hall whose controllers are all dead, behind one gateway.
TEST_F(FencerCheckTest, a_few_machines_are_asked_at_a_time_and_a_bounded_number_is_told) {
  for (int i = 0; i < 40; ++i) {
    add("dead-" + std::to_string(i));
    given["bmc/dead-" + std::to_string(i)] = test::FakeAnswer::silent();
  }
  open({bound("bmc")});
  check->lead();
  std::size_t most = 0;
  for (int i = 0; i < 60 * 60; ++i) {
    run_for(1s);
    most = std::max(most, http.open_exchanges());
  }
  EXPECT_EQ(most, FencerCheck::kAtOnce);
  EXPECT_EQ(counts(), "1 40 0");
  EXPECT_EQ(check->told().broken.size(), FencerCheck::kMostTold);
  EXPECT_EQ(check->told().broken_cut, 40 - FencerCheck::kMostTold);
}

// Each of these may switch machines off.
TEST_F(FencerCheckTest, nothing_is_ever_switched_off) {
  add("n2");
  add("n3");
  given["bmc/n2"] = power("off");
  given["bmc/n3"] = refused();
  begin({bound("bmc"), bound("cloud")});
  run_for(3 * FencerCheck::kEvery);
  EXPECT_GT(asked.size(), 10U);
  EXPECT_EQ(orders(), 0U);
}

}  // namespace
}  // namespace moonfence::fence
