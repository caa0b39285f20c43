#include "unit/policy/reload_fixture.h"

namespace moonfence::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using State = PolicyStatus::State;

// How far an edit that is rejected may carry what runs in its place.
struct ReloadReachTest : ReloadTest {
  // One binding of policy a: "[x], mode: enforce".
  static std::string file(const std::string& namespaces_and_more) {
    return file_of("- {policy: a, source: a.lua, namespaces: " + namespaces_and_more + "}\n");
  }
  // The source as accepted in one reach, then broken in another.
  void edit(const std::string& source, const std::string& before, const std::string& after) {
    data = {{"moonfence.yaml", file(before)}, {"a.lua", source}};
    apply();
    data = {{"moonfence.yaml", file(after)}, {"a.lua", source + kBroken}};
    apply();
  }
  [[nodiscard]] std::string scope() const { return to_text(binding(0).scope); }
};

TEST_F(ReloadReachTest, a_rejected_edit_carries_nothing_further) {
  edit(deleting("a"), "[test]", "[\"*\"], mode: enforce, allow: [bare-pods]");
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(scope(), "test");
  EXPECT_FALSE(binding(0).allow.bare_pods);
  EXPECT_EQ(status(0).state, State::Stale);
  EXPECT_EQ(status(0).mode, Mode::Observe);
  EXPECT_THAT(status(0).warnings, ElementsAre(HasSubstr("in namespaces test in mode observe")));
  data["a.lua"] = kBroken;  // what was persisted is what was accepted, not what was asked for
  apply();
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(scope(), "test");
  start();
  apply();
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(scope(), "test");
  data["a.lua"] = deleting("a");
  apply();
  EXPECT_EQ(in_force(), "a enforce");
  EXPECT_EQ(scope(), "*");
  EXPECT_TRUE(binding(0).allow.bare_pods);
}

TEST_F(ReloadReachTest, a_rejected_edit_can_take_away) {
  edit(deleting("a"), "[x, y], mode: enforce, allow: [bare-pods, finished-pods]",
       "[y, z], allow: [finished-pods, out-of-service]");
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(scope(), "y");
  EXPECT_EQ(binding(0).allow, Allowances{.finished_pods = true});
}

TEST_F(ReloadReachTest, what_may_act_nowhere_does_not_run) {
  edit(deleting("a"), "[x], mode: enforce", "[y], mode: enforce");
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(status(0).state, State::Rejected);
}

TEST_F(ReloadReachTest, a_guard_guards_wherever_either_would) {
  edit(guard("a"), "[x]", "[y], mode: enforce");
  EXPECT_EQ(in_force(), "a enforce");
  EXPECT_EQ(scope(), "x, y");
  data["moonfence.yaml"] = file("[y], mode: \"off\"");
  apply();
  EXPECT_EQ(in_force(), "") << "the way to take a guard out";
}

TEST_F(ReloadReachTest, a_guard_that_was_to_be_lowered_goes_on_enforcing) {
  edit(guard("a"), "[x], mode: enforce", "[x]");
  EXPECT_EQ(in_force(), "a enforce");
}

TEST_F(ReloadReachTest, a_guard_that_acts_as_well_acts_no_further) {
  const std::string both =
      source_of("a",
                "if pod.name == 'mine' then return fence.forbid('mine') end return "
                "fence.delete_pod('gone')");
  edit(both, "[test]", "[\"*\"], mode: enforce");
  EXPECT_EQ(in_force(), "a observe");
  EXPECT_EQ(scope(), "test");
  data["moonfence.yaml"] = file("[other], mode: enforce");
  apply();
  EXPECT_EQ(in_force(), "a enforce held") << "it runs nowhere and is a guard";
  EXPECT_EQ(scope(), "other, test");
}

}  // namespace
}  // namespace moonfence::policy
