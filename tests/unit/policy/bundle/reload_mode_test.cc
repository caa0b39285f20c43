#include "unit/policy/reload_fixture.h"

namespace moonfence::policy {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using State = PolicyStatus::State;

using ReloadModeTest = ReloadTest;

TEST_F(ReloadModeTest, a_deleted_config_map_is_off_at_once) {
  bind_three();
  apply();
  see_nothing();
  test::run_for(loop, milliseconds(1));
  ASSERT_THAT(sets, SizeIs(2));
  EXPECT_EQ(in_force(), "");
  settle();
  EXPECT_EQ(reports.back().mode, Mode::Off);
  EXPECT_EQ(reports.back().mode_set_by, "no ConfigMap");
  EXPECT_THAT(reports.back().policies, IsEmpty());
  EXPECT_EQ(persisted, LastGood{}) << "what was taken away must not come back";
  data["a.lua"] = kBroken;
  apply();
  EXPECT_EQ(status(0).state, State::Rejected);
  EXPECT_EQ(in_force(), "b enforce, c enforce");
}

// Who did not watch meanwhile sees the UID only.
TEST_F(ReloadModeTest, what_a_deleted_config_map_bound_does_not_come_back_with_a_faulty_new_one) {
  bind_three();
  apply();
  uid = "uid-2";
  data["moonfence.yaml"] = "api: [";
  see();
  test::run_for(loop, milliseconds(1));
  EXPECT_EQ(in_force(), "") << "without waiting for quiet";
  settle();
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(persisted, LastGood{});
  bind_three();
  data["a.lua"] = kBroken;
  apply();
  EXPECT_EQ(status(0).state, State::Rejected) << "its last good version was of the other one";
  EXPECT_EQ(in_force(), "b enforce, c enforce");
}

TEST_F(ReloadModeTest, a_config_map_made_again_as_it_was_is_off_in_between) {
  bind_three();
  apply();
  uid = "uid-2";
  apply();
  ASSERT_THAT(sets, SizeIs(3));
  EXPECT_THAT(sets.at(1)->bindings, IsEmpty());
  EXPECT_EQ(in_force(), "a enforce, b enforce, c enforce");
  EXPECT_EQ(persisted.map_uid, Uid("uid-2"));
}

TEST_F(ReloadModeTest, the_mode_of_a_faulty_new_config_map_counts) {
  bind_three();
  apply();
  uid = "uid-2";
  data["moonfence.yaml"] = file_of(bind("a") + "- {policy: b}\n", "mode: observe\n");
  apply();
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(reports.back().mode, Mode::Observe);
}

TEST_F(ReloadModeTest, the_last_good_of_another_config_map_is_not_used_at_the_start) {
  bind_three();
  apply();
  uid = "uid-2";
  data["moonfence.yaml"] = "api: [";
  start();
  apply();
  EXPECT_EQ(in_force(), "");
}

TEST_F(ReloadModeTest, the_mode_key_is_honoured_while_the_file_is_broken) {
  bind_three();
  apply();
  data["moonfence.yaml"] = "api: [";
  data["mode"] = "observe";
  see();
  test::run_for(loop, milliseconds(1));
  EXPECT_EQ(in_force(), "a observe, b observe, c observe") << "without waiting for quiet";
  settle();
  data["mode"] = "off";
  apply();
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(reports.back().mode_set_by, "key mode");
  EXPECT_EQ(status(0).state, State::Off);
  data.erase("mode");
  apply();
  EXPECT_EQ(in_force(), "a enforce, b enforce, c enforce");
}

TEST_F(ReloadModeTest, off_is_in_force_in_the_next_turn) {
  bind_three();
  apply();
  const Moment before = loop.now();
  data["mode"] = "off";
  data["a.lua"] = deleting("a", "new");
  see();
  EXPECT_TRUE(test::run_until(loop, [this] { return sets.size() == 2; }));
  EXPECT_LT(loop.now() - before, milliseconds(1));
  EXPECT_EQ(in_force(), "");
  settle();
  EXPECT_EQ(status(0).state, State::Off);
  ASSERT_THAT(news, SizeIs(4)) << "off is no news of a policy";
  EXPECT_EQ(news.back().kind, ReloadNews::Kind::PoliciesInactive);
  data["mode"] = "enforce";
  see();
  test::run_for(loop, milliseconds(150));
  EXPECT_EQ(in_force(), "") << "a higher mode waits";
  settle();
  EXPECT_EQ(in_force(), "a enforce, b enforce, c enforce");
  EXPECT_EQ(says(0), "new");
}

TEST_F(ReloadModeTest, an_unreadable_mode_is_off_and_says_so) {
  bind_three();
  data["mode"] = "oberve";
  apply();
  EXPECT_EQ(in_force(), "");
  EXPECT_THAT(reports.back().faults, ElementsAre(HasSubstr("did you mean 'observe'?")));
}

TEST_F(ReloadModeTest, the_lowest_mode_is_in_force) {
  rules.ceiling = Mode::Observe;
  data = {{"moonfence.yaml", file_of(bind("a") + "- {policy: b, source: b.lua, namespaces: [x], "
                                                 "mode: \"off\"}\n",
                                     "mode: enforce\n")},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")}};
  apply();
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(reports.back().mode_set_by, "--mode");
  EXPECT_EQ(status(1).state, State::Off);
  EXPECT_EQ(status(0).held_back, Mode::Enforce);
  EXPECT_EQ(status(1).held_back, std::nullopt);
}

TEST_F(ReloadModeTest, a_broken_file_can_lower_the_mode_and_never_raise_it) {
  bind_three();
  data["moonfence.yaml"] = file_of(bind("a"), "mode: enforce\n");
  apply();
  data["moonfence.yaml"] = "api: 1\nmode: observe\nbindings: 5\n";
  apply();
  EXPECT_EQ(in_force(), "a observe");
  data["moonfence.yaml"] = "api: 1\nmode: enforce\nbindings: 5\n";
  apply();
  EXPECT_EQ(in_force(), "a observe");
  data["moonfence.yaml"] = "[";
  apply();
  EXPECT_EQ(in_force(), "a observe");
  data["moonfence.yaml"] = file_of(bind("a"), "mode: enforce\n");
  apply();
  EXPECT_EQ(in_force(), "a enforce");
}

TEST_F(ReloadModeTest, a_broken_file_after_a_raised_mode_keeps_it_raised) {
  bind_three();
  data["moonfence.yaml"] = file_of(bind("a"), "mode: observe\n");
  apply();
  data["moonfence.yaml"] = file_of(bind("a"), "mode: enforce\n");
  apply();
  EXPECT_EQ(in_force(), "a enforce");
  data["moonfence.yaml"] = "[";
  apply();
  EXPECT_EQ(in_force(), "a enforce");
}

TEST_F(ReloadModeTest, off_during_a_validation_is_in_force_at_its_end) {
  bind_three();
  apply();
  data["a.lua"] = deleting("a", "new");
  see();
  const std::uint64_t before = reloader->slices();
  EXPECT_TRUE(test::run_until(loop, [&] { return reloader->slices() == before + 2; }));
  data["mode"] = "off";
  see();
  EXPECT_TRUE(test::run_until(loop, [this] { return reports.size() >= 3; }));
  for (std::size_t i = 1; i < sets.size(); ++i) {
    EXPECT_THAT(sets[i]->bindings, IsEmpty()) << i;
  }
  settle();
  EXPECT_EQ(in_force(), "");
}

TEST_F(ReloadModeTest, what_a_sound_file_takes_away_does_not_wait) {
  data = {{"moonfence.yaml", file_of(bind("a") + bind("b") + bind("c") + bind("g"))},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")},
          {"c.lua", deleting("c")},
          {"g.lua", guard("g")}};
  apply();
  const std::uint64_t before = reloader->slices();
  data["moonfence.yaml"] = file_of(
      "- {policy: a, source: a.lua, namespaces: [x], mode: enforce}\n"
      "- {policy: b, source: b.lua, namespaces: [\"*\"]}\n");
  data["a.lua"] = deleting("a", "new");
  see();
  test::run_for(loop, milliseconds(1));
  EXPECT_EQ(reloader->slices(), before);
  EXPECT_EQ(in_force(), "a enforce, b observe, g enforce") << "a guard goes last";
  EXPECT_EQ(to_text(binding(0).scope), "x");
  EXPECT_EQ(says(0), "gone");
  settle();
  EXPECT_EQ(in_force(), "a enforce, b observe");
  EXPECT_EQ(says(0), "new");
}

}  // namespace
}  // namespace moonfence::policy
