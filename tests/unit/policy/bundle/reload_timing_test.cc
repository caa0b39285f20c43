#include "unit/policy/reload_fixture.h"

namespace moonfence::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;
using State = PolicyStatus::State;
using Kind = ReloadNews::Kind;

using ReloadTimingTest = ReloadTest;

TEST_F(ReloadTimingTest, equal_policies_are_not_validated_again) {
  bind_three();
  apply();
  const auto before = sets.back();
  const std::uint64_t slices = reloader->slices();
  data["a.lua"] = deleting("a", "new");
  apply();
  EXPECT_EQ(reloader->slices() - slices, slices / 3);
  EXPECT_NE(binding(0).digest, before->bindings[0].digest);
  EXPECT_EQ(binding(1).digest, before->bindings[1].digest);
  EXPECT_EQ(binding(1).policy, before->bindings[1].policy);
  EXPECT_NE(sets.back()->digest, before->digest);
  EXPECT_THAT(news, SizeIs(4)) << "three at the start, one now";
}

TEST_F(ReloadTimingTest, a_change_of_the_metadata_alone_does_nothing) {
  bind_three();
  apply();
  const std::uint64_t slices = reloader->slices();
  see();
  EXPECT_TRUE(reloader->is_idle());
  see();
  settle();
  EXPECT_EQ(reloader->slices(), slices);
  EXPECT_THAT(reports, SizeIs(1));
}

TEST_F(ReloadTimingTest, a_burst_ends_at_the_last_with_few_validations) {
  data = {{"moonfence.yaml", file_of(bind("a"))}, {"a.lua", deleting("a")}};
  apply();
  const std::uint64_t once = reloader->slices();
  const Moment began = loop.now();
  for (int i = 0; i < 50; ++i) {
    data["a.lua"] = deleting("a", "edit " + std::to_string(i));
    see();
    test::run_for(loop, milliseconds(20));
  }
  settle();
  EXPECT_EQ(says(0), "edit 49");
  EXPECT_LE(reloader->slices(), once * 5) << "one for each 500 ms, and the last";
  EXPECT_LT(loop.now() - began, seconds(2));
}

TEST_F(ReloadTimingTest, an_edit_is_in_force_within_a_second) {
  bind_three();
  apply();
  const Moment edited = loop.now();
  data["a.lua"] = deleting("a", "new");
  see();
  EXPECT_TRUE(test::run_until(loop, [this] { return sets.size() == 2; }));
  EXPECT_GE(loop.now() - edited, milliseconds(200)) << "editors write in bursts";
  EXPECT_LT(loop.now() - edited, milliseconds(300));
}

TEST_F(ReloadTimingTest, edits_that_never_pause_are_taken_up_all_the_same) {
  bind_three();
  apply();
  const Moment began = loop.now();
  for (int i = 0; sets.size() < 2; ++i) {
    ASSERT_LT(loop.now() - began, milliseconds(600));
    data["a.lua"] = deleting("a", "edit " + std::to_string(i));
    see();
    test::run_for(loop, milliseconds(100));
  }
}

TEST_F(ReloadTimingTest, a_failing_test_rejects_and_is_not_run_for_what_did_not_change) {
  const auto test_of = [](const std::string& verdict) {
    return "return tests { case { name = 'c', objects = { { apiVersion = 'v1', kind = 'Pod', "
           "metadata = { name = 'p', namespace = 'd', uid = 'u' } } }, expect = { verdict = '" +
           verdict + "' } } }";
  };
  data = {{"moonfence.yaml", file_of(bind("a"))},
          {"a.lua", deleting("a")},
          {"a_test.lua", test_of("delete_pod")}};
  apply();
  EXPECT_EQ(status(0).state, State::Active);
  const std::uint64_t slices = reloader->slices();
  data["mode"] = "observe";
  apply();
  EXPECT_EQ(reloader->slices(), slices) << "the outcome is known";
  data["a_test.lua"] = test_of("skip");
  apply();
  EXPECT_GT(reloader->slices(), slices);
  EXPECT_EQ(status(0).state, State::Stale);
  EXPECT_EQ(status(0).error->stage, "self-test");
  EXPECT_EQ(in_force(), "a observe");
}

TEST_F(ReloadTimingTest, an_equal_fault_is_told_once) {
  bind_three();
  apply();
  news.clear();
  data["b.lua"] = kBroken;
  apply();
  data["a.lua"] = deleting("a", "1");
  apply();
  data["a.lua"] = deleting("a", "2");
  apply();
  int rejections = 0;
  for (const ReloadNews& item : news) {
    rejections += item.kind == Kind::PolicyRejected ? 1 : 0;
  }
  EXPECT_EQ(rejections, 1);
  EXPECT_THAT(news, SizeIs(3));
}

TEST_F(ReloadTimingTest, an_edit_without_effect_activates_nothing) {
  bind_three();
  apply();
  data["d.lua"] = deleting("d");
  apply();
  EXPECT_THAT(sets, SizeIs(1));
  EXPECT_THAT(reports, SizeIs(2));
}

TEST_F(ReloadTimingTest, a_validation_never_takes_more_than_a_slice_of_a_turn) {
  TickingCpuClock ticking(milliseconds(1));
  clock = &ticking;
  bind_three();
  start();
  see();
  std::uint64_t most = 0;
  std::uint64_t turns = 0;
  while (sets.empty()) {
    const std::uint64_t before = reloader->slices();
    loop.turn();
    most = std::max(most, reloader->slices() - before);
    turns += reloader->slices() > before ? 1U : 0U;
    ASSERT_LT(turns, 1000U);
  }
  EXPECT_EQ(most, 1U);
  EXPECT_EQ(turns, 3 * (2 + smoke_cases().size()));
}

TEST_F(ReloadTimingTest, a_policy_that_takes_too_long_is_rejected_and_the_others_are_not) {
  rules.validation.limits.cpu = seconds(100);
  rules.validation.limits.compile_cpu = seconds(100);
  rules.validation.limits.instructions = 1'000'000'000;
  rules.validation.cpu = milliseconds(200);
  TickingCpuClock ticking(milliseconds(1));
  clock = &ticking;
  bind_three();
  data["b.lua"] = source_of("b", "for i = 1, 1000000 do end return fence.skip('x')");
  apply();
  EXPECT_EQ(in_force(), "a enforce, c enforce");
  EXPECT_EQ(status(1).error->stage, "budget");
}

TEST_F(ReloadTimingTest, a_newer_edit_replaces_the_one_that_is_being_validated) {
  bind_three();
  apply();
  data["a.lua"] = deleting("a", "first");
  see();
  const std::uint64_t before = reloader->slices();
  EXPECT_TRUE(test::run_until(loop, [&] { return reloader->slices() == before + 2; }));
  data["a.lua"] = deleting("a", "second");
  see();
  settle();
  EXPECT_EQ(says(0), "second");
}

TEST_F(ReloadTimingTest, a_broken_edit_during_a_validation_lets_it_end_and_is_reported) {
  bind_three();
  apply();
  // So many policies that they are still being validated when the next edit has settled.
  std::string bindings;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "p" + std::to_string(i);
    bindings += bind(name);
    data[name + ".lua"] = deleting(name);
  }
  data["moonfence.yaml"] = file_of(bindings);
  see();
  const std::uint64_t before = reloader->slices();
  EXPECT_TRUE(test::run_until(loop, [&] { return reloader->slices() == before + 2; }));
  data["moonfence.yaml"] = "[";
  see();
  poller.advance(milliseconds(300));
  settle();
  EXPECT_THAT(sets.back()->bindings, SizeIs(40));
  EXPECT_THAT(reports.back().faults, SizeIs(1));
  EXPECT_EQ(reports.back().resource_version, std::to_string(version));
}

TEST_F(ReloadTimingTest, edits_that_replace_each_other_are_taken_up_in_the_end) {
  bind_three();
  apply();
  // Each edit is replaced before its validation has ended.
  for (int i = 0; i < 40 && sets.size() < 2; ++i) {
    data["a.lua"] = deleting("a", "edit " + std::to_string(i));
    see();
    poller.advance(milliseconds(600));
    const std::uint64_t before = reloader->slices();
    EXPECT_TRUE(
        test::run_until(loop, [&] { return reloader->slices() >= before + 2 || sets.size() > 1; }));
  }
  EXPECT_THAT(sets, SizeIs(2));
  settle();
}

TEST_F(ReloadTimingTest, a_deletion_during_a_validation_ends_it) {
  bind_three();
  apply();
  data["a.lua"] = deleting("a", "first");
  see();
  const std::uint64_t before = reloader->slices();
  EXPECT_TRUE(test::run_until(loop, [&] { return reloader->slices() == before + 2; }));
  see_nothing();
  settle();
  EXPECT_EQ(in_force(), "");
  EXPECT_LE(reloader->slices(), before + 3);
}

TEST_F(ReloadTimingTest, a_destroyed_reloader_is_silent) {
  bind_three();
  start();
  see();
  reloader.reset();
  test::run_for(loop, seconds(5));
  EXPECT_THAT(sets, IsEmpty());
  EXPECT_THAT(reports, IsEmpty());
}

}  // namespace
}  // namespace moonfence::policy
