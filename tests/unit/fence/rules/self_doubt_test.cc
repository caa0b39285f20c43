// When we take ourselves for the fault, and when we trust ourselves again.

#include "fence/rules/self_doubt.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using Cause = SelfDoubt::Cause;
using Causes = std::set<Cause>;

struct SelfDoubtTest : testing::Test {
  SelfDoubt doubt;
  Moment now = Moment{} + 1h;
  SelfDoubt::Signs signs;

  SelfDoubtTest() { (void)doubt.look(signs, now); }

  SelfDoubt::Outcome look_after(Duration pause) {
    now += pause;
    return doubt.look(signs, now);
  }
  // Second by second, until something but waiting is to be done.
  SelfDoubt::Outcome look_for(Duration time) {
    SelfDoubt::Outcome outcome;
    const Moment end = now + time;
    while (now < end && outcome.begun.empty() && !outcome.list_nodes && !outcome.trusts_again) {
      outcome = look_after(1s);
    }
    return outcome;
  }
  void calls(int good, int failed) {
    for (int i = 0; i < good + failed; ++i) {
      doubt.call_ended(i >= good, now);
    }
  }
};

TEST_F(SelfDoubtTest, before_the_first_look_nothing_speaks_for_us) {
  const SelfDoubt fresh;
  EXPECT_EQ(fresh.cause(now), Cause::Stopped);
  EXPECT_EQ(doubt.cause(now), std::nullopt);
}

TEST_F(SelfDoubtTest, an_ordinary_hour_gives_no_reason) {
  for (int second = 0; second < 3600; ++second) {
    calls(2, 0);
    const SelfDoubt::Outcome outcome = look_after(1s);
    ASSERT_TRUE(outcome.begun.empty() && !outcome.list_nodes && !outcome.trusts_again) << second;
    ASSERT_EQ(doubt.cause(now), std::nullopt);
  }
}

TEST_F(SelfDoubtTest, a_pause_of_our_own_is_known_before_anybody_has_looked) {
  EXPECT_EQ(doubt.cause(now + 5s), std::nullopt);
  EXPECT_EQ(doubt.cause(now + 5s + 1ns), Cause::Stopped);
}

TEST_F(SelfDoubtTest, after_a_pause_it_waits_for_a_list_that_was_begun_since) {
  signs.node_lists = 3;
  const SelfDoubt::Outcome woken = look_after(6s);
  EXPECT_EQ(woken.begun, Causes{Cause::Stopped});
  EXPECT_TRUE(woken.list_nodes);
  EXPECT_FALSE(woken.trusts_again);
  EXPECT_EQ(doubt.cause(now), Cause::Stopped);
  (void)look_for(1min);
  EXPECT_EQ(doubt.cause(now), Cause::Stopped);
  signs.node_lists = 4;
  EXPECT_TRUE(look_after(1s).trusts_again);
  EXPECT_EQ(doubt.cause(now), std::nullopt);
  EXPECT_FALSE(look_after(1s).trusts_again);  // told once
}

TEST_F(SelfDoubtTest,
       a_store_that_went_back_is_doubted_at_once_and_until_all_of_it_is_known_again) {
  signs.node_lists = 3;
  doubt.went_back();
  EXPECT_EQ(doubt.cause(now), Cause::WentBack) << "before anybody has looked";
  signs.went_back = true;
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::WentBack});
  signs.node_lists = 9;
  (void)look_for(10min);
  EXPECT_EQ(doubt.cause(now), Cause::WentBack);
  signs.went_back = false;
  EXPECT_TRUE(look_after(1s).list_nodes);
  EXPECT_EQ(doubt.cause(now), Cause::WentBack);
  signs.node_lists = 10;
  EXPECT_TRUE(look_after(1s).trusts_again);
  EXPECT_EQ(doubt.cause(now), std::nullopt);
  EXPECT_EQ(doubt.outage_ended(), now) << "no Lease was renewed in the store that is there now";
}

TEST_F(SelfDoubtTest, most_calls_of_the_window_fail) {
  calls(3, 4);
  EXPECT_TRUE(look_after(1s).begun.empty()) << "too few to tell";
  calls(0, 1);
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::CallsFail});
  EXPECT_EQ(doubt.cause(now), Cause::CallsFail);
  EXPECT_TRUE(look_after(1s).begun.empty()) << "told once";
  calls(3, 0);  // 6 of 11 are good
  const SelfDoubt::Outcome better = look_after(1s);
  EXPECT_TRUE(better.list_nodes);
  EXPECT_EQ(doubt.cause(now), Cause::CallsFail);
  ++signs.node_lists;
  EXPECT_TRUE(look_after(1s).trusts_again);
}

TEST_F(SelfDoubtTest, an_outage_is_remembered_and_a_pause_of_our_own_is_none) {
  (void)look_after(6s);
  ++signs.node_lists;
  EXPECT_TRUE(look_after(1s).trusts_again);
  EXPECT_EQ(doubt.outage_ended(), std::nullopt);
  calls(0, 8);
  (void)look_after(1s);
  EXPECT_EQ(doubt.outage_ended(), std::nullopt) << "it lasts";
  calls(9, 0);
  (void)look_after(1s);
  ++signs.node_lists;
  EXPECT_TRUE(look_after(1s).trusts_again);
  EXPECT_EQ(doubt.outage_ended(), now);
}

TEST_F(SelfDoubtTest, half_of_the_calls_may_fail) {
  calls(10, 10);
  EXPECT_TRUE(look_after(1s).begun.empty());
}

TEST_F(SelfDoubtTest, failures_are_forgotten_after_the_window) {
  calls(0, 20);
  (void)look_after(1s);
  EXPECT_FALSE(look_for(9s).list_nodes);
  EXPECT_TRUE(look_for(1s).list_nodes);
}

TEST_F(SelfDoubtTest, that_the_nodes_are_known_is_unproven_for_longer_than_a_watch_needs) {
  signs.nodes_silent = 120s;
  EXPECT_TRUE(look_after(1s).begun.empty());
  signs.nodes_silent = 121s;
  const SelfDoubt::Outcome outcome = look_after(1s);
  EXPECT_EQ(outcome.begun, Causes{Cause::NodesUnwatched});
  EXPECT_TRUE(outcome.list_nodes) << "that is how it ends";
  EXPECT_FALSE(look_for(1min).list_nodes) << "the watch sees to its repetition";
  signs.nodes_silent = 1s;
  EXPECT_FALSE(look_after(1s).trusts_again);
  EXPECT_EQ(doubt.cause(now), Cause::NodesUnwatched);
  ++signs.node_lists;
  EXPECT_TRUE(look_after(1s).trusts_again);
}

TEST_F(SelfDoubtTest, an_unwatched_node_is_listed_as_soon_as_calls_are_answered_again) {
  signs.nodes_watched = false;
  signs.nodes_silent = 1h;
  calls(0, 20);
  EXPECT_FALSE(look_after(1s).list_nodes);
  calls(20, 0);
  EXPECT_TRUE(look_after(1s).list_nodes);
}

TEST_F(SelfDoubtTest, without_a_watch_it_is_blind_sooner) {
  signs.nodes_watched = false;
  signs.nodes_silent = 30s;
  EXPECT_TRUE(look_after(1s).begun.empty());
  signs.nodes_silent = 31s;
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::NodesUnwatched});
}

TEST_F(SelfDoubtTest, policies_that_nobody_has_confirmed_for_half_a_minute) {
  signs.policies_silent = 30s;
  EXPECT_TRUE(look_after(1s).begun.empty());
  signs.policies_silent = 31s;
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::PoliciesUnwatched});
}

TEST_F(SelfDoubtTest, a_renewal_is_late_when_half_of_the_term_is_over) {
  signs.term = 15s;
  signs.term_left = 7500ms;
  EXPECT_TRUE(look_after(1s).begun.empty());
  signs.term_left = 7499ms;
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::RenewsLate});
  signs.term.reset();  // we do not lead any more
  EXPECT_TRUE(look_after(1s).list_nodes);
}

TEST_F(SelfDoubtTest, it_lasts_until_the_last_cause_is_over) {
  signs.policies_silent = 1h;
  (void)look_after(1s);
  calls(0, 20);
  EXPECT_EQ(look_after(1s).begun, Causes{Cause::CallsFail});
  ++signs.node_lists;
  EXPECT_FALSE(look_for(1min).trusts_again) << "a list in the middle of it proves nothing";
  signs.policies_silent = 1s;
  EXPECT_TRUE(look_after(1s).list_nodes);
}

TEST_F(SelfDoubtTest, a_cause_that_returns_while_the_nodes_are_listed_begins_it_anew) {
  (void)look_after(6s);
  signs.policies_silent = 1h;
  ++signs.node_lists;
  const SelfDoubt::Outcome outcome = look_after(1s);
  EXPECT_EQ(outcome.begun, Causes{Cause::PoliciesUnwatched});
  EXPECT_FALSE(outcome.trusts_again);
  signs.policies_silent = 1s;
  EXPECT_TRUE(look_after(1s).list_nodes);
  EXPECT_TRUE(look_after(7s).list_nodes) << "stopped again: that list may be older";
  ++signs.node_lists;
  EXPECT_TRUE(look_after(1s).trusts_again);
}

}  // namespace
}  // namespace moonfence::fence
