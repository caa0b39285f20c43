#include "fence/rules/triggers.h"

#include <string>

#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using policy::Trigger;

const Moment kDown = Moment{} + 1h;

constexpr bool kSilent = true;
constexpr bool kAlive = false;

Standing::Kind standing(const Trigger& trigger, bool silent, Duration down_for, bool fell = true) {
  return standing_of(trigger, 0s, {.since = kDown, .fell = fell}, {.silent = silent},
                     kDown + down_for)
      .kind;
}

TEST(Triggers, one_failure_acts_at_once_whatever_the_interval) {
  EXPECT_EQ(standing({.failures = 1, .interval = 60s}, kSilent, 0s), Standing::Kind::MayAct);
  EXPECT_EQ(hold_down({.failures = 1, .interval = 60s}), 0s);
}

TEST(Triggers, the_last_of_several_failures_is_the_moment_to_act) {
  const Trigger trigger = {.failures = 3, .interval = 10s};
  EXPECT_EQ(hold_down(trigger), 30s);
  EXPECT_EQ(standing(trigger, kSilent, 30s - 1ns), Standing::Kind::NotDueYet);
  EXPECT_EQ(standing(trigger, kSilent, 30s), Standing::Kind::MayAct);
  const Standing waits =
      standing_of(trigger, 0s, {.since = kDown, .fell = true}, {.silent = kSilent}, kDown + 12s);
  EXPECT_EQ(waits.due_in, 18s);
}

TEST(Triggers, failures_are_counted_in_intervals_from_the_first_observation) {
  const Trigger trigger = {.failures = 3, .interval = 10s};
  EXPECT_EQ(failures_of(trigger, 0s), 1U);
  EXPECT_EQ(failures_of(trigger, 19s), 1U);
  EXPECT_EQ(failures_of(trigger, 30s), 3U);
  EXPECT_EQ(failures_of(trigger, 1h), 360U);
  EXPECT_EQ(failures_of({}, 1h), 1U);
  EXPECT_EQ(failures_of({.failures = 2, .interval = 1ns}, 24h), 4294967295U);
}

TEST(Triggers, a_living_kubelet_is_for_those_that_ask_for_it) {
  EXPECT_EQ(standing({}, kAlive, 1h), Standing::Kind::Unfit);
  EXPECT_EQ(standing({.live_kubelet = true}, kAlive, 1h), Standing::Kind::MayAct);
  EXPECT_EQ(standing({.live_kubelet = true}, kSilent, 1h), Standing::Kind::MayAct);
}

TEST(Triggers, a_machine_that_answers_is_for_those_that_ask_for_it) {
  const auto of_one_that_answers = [](const Trigger& trigger) {
    return standing_of(trigger, 0s, {.since = kDown, .fell = true},
                       {.silent = kSilent, .answers = true}, kDown + 1h)
        .kind;
  };
  EXPECT_EQ(of_one_that_answers({}), Standing::Kind::Unfit);
  EXPECT_EQ(of_one_that_answers({.live_kubelet = true}), Standing::Kind::Unfit);
  EXPECT_EQ(of_one_that_answers({.live_kernel = true}), Standing::Kind::MayAct);
  EXPECT_EQ(standing({.live_kernel = true}, kAlive, 1h), Standing::Kind::Unfit);
}

TEST(Triggers, a_kubelet_that_speaks_is_held_down_and_a_silent_one_is_not) {
  const Trigger eager = {.live_kubelet = true};
  const Downtime down = {.since = kDown, .fell = true};
  const auto after = [&](Duration down_for, Signal signal) {
    return standing_of(eager, 10s, down, signal, kDown + down_for);
  };
  EXPECT_EQ(after(3s, {}).kind, Standing::Kind::NotDueYet);
  EXPECT_EQ(after(3s, {}).due_in, 7s);
  EXPECT_EQ(after(10s, {}).kind, Standing::Kind::MayAct);
  EXPECT_EQ(after(0s, {.silent = true}).kind, Standing::Kind::MayAct);
  const Trigger patient = {.failures = 3, .interval = 10s, .live_kubelet = true};
  EXPECT_EQ(standing_of(patient, 10s, down, {}, kDown + 12s).due_in, 18s);  // the longer counts
}

TEST(Triggers, without_sweep_only_a_fall_that_was_seen_counts) {
  EXPECT_EQ(standing({.sweep = false}, kSilent, 1h, false), Standing::Kind::NotSwept);
  EXPECT_EQ(standing({.sweep = false}, kSilent, 1h, true), Standing::Kind::MayAct);
  EXPECT_EQ(standing({.sweep = true}, kSilent, 1h, false), Standing::Kind::MayAct);
}

policy::Binding with(const std::string& trigger) {
  auto loaded = load_text(policy_text("return fence.skip('no')", "trigger = {" + trigger + "},"));
  policy::Binding binding;
  binding.policy = std::make_shared<const policy::Policy>(*std::move(loaded));
  return binding;
}

TEST(HoldDowns, the_first_of_several_bindings_counts_for_each_signal) {
  const policy::PolicySet set = {
      .bindings = {with("failures = 3, interval = '10s'"),
                   with("failures = 2, interval = '60s', live_kubelet = true"),
                   with("failures = 2, interval = '1s', sweep = false"), policy::Binding{}},
      .digest = {}};
  EXPECT_EQ(hold_downs(set, true), (HoldDowns{.silent = 2s, .living = 120s}));
  EXPECT_EQ(hold_downs(set, false), (HoldDowns{.silent = 30s, .living = 120s}));
}

TEST(HoldDowns, nobody_acts_where_no_binding_does) {
  const HoldDowns nobody = {.silent = std::nullopt, .living = std::nullopt};
  EXPECT_EQ(hold_downs({}, true), nobody);
  EXPECT_EQ(hold_downs({.bindings = {policy::Binding{}}, .digest = {}}, true), nobody);
  EXPECT_EQ(hold_downs({.bindings = {with("sweep = false")}, .digest = {}}, false), nobody);
  EXPECT_EQ(hold_downs({.bindings = {with("failures = 2, interval = '1s', live_kernel = true")},
                        .digest = {}},
                       true)
                .answering,
            2s);
  EXPECT_EQ(hold_downs({.bindings = {with("failures = 1")}, .digest = {}}, true),
            (HoldDowns{.silent = 0s, .living = std::nullopt}));
}

}  // namespace
}  // namespace moonfence::fence
