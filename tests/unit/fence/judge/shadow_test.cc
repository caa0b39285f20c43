#include "fence/judge/shadow.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using policy::Verdict;

struct ShadowTest : testing::Test {
  // What one side decided; an action names its volumes.
  static Decision decided(Decision::Kind kind, const Opinion* by = nullptr) {
    Decision decision;
    decision.kind = kind;
    decision.by = by;
    return decision;
  }
  static Opinion says(Verdict::Kind kind, const std::string& reason) {
    Opinion opinion;
    opinion.verdict = Verdict{.kind = kind, .reason = reason};
    return opinion;
  }

  const Opinion deletes = says(Verdict::Kind::DeletePod, "dead");
  const Opinion skips = says(Verdict::Kind::Skip, "not mine");
  const Opinion waits = says(Verdict::Kind::Wait, "soon");
};

TEST_F(ShadowTest, what_one_side_alone_says_differs_from_nothing) {
  const Decision acts = decided(Decision::Kind::Act, &deletes);
  EXPECT_FALSE(shadow_difference(acts, decided(Decision::Kind::None)));
  EXPECT_FALSE(shadow_difference(decided(Decision::Kind::None), acts));
}

TEST_F(ShadowTest, agreeing_is_no_difference_whatever_the_reasons_are) {
  const Opinion otherwise = says(Verdict::Kind::DeletePod, "another reason");
  EXPECT_FALSE(shadow_difference(decided(Decision::Kind::Act, &deletes),
                                 decided(Decision::Kind::Act, &otherwise)));
  Opinion longer = waits;
  longer.verdict->wait = std::chrono::hours(1);
  EXPECT_FALSE(shadow_difference(decided(Decision::Kind::Wait, &waits),
                                 decided(Decision::Kind::Wait, &longer)));
}

TEST_F(ShadowTest, both_words_and_both_reasons_are_told) {
  const auto found = shadow_difference(decided(Decision::Kind::Act, &deletes),
                                       decided(Decision::Kind::Skip, &skips));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->observed, "delete_pod");
  EXPECT_EQ(found->enforced, "skip");
  EXPECT_EQ(found->text, "observing: dead; enforcing: not mine");
}

TEST_F(ShadowTest, the_same_word_about_other_volumes_differs) {
  Opinion one = says(Verdict::Kind::DeletePodAndAttachments, "dead");
  Opinion other = one;
  one.verdict->volumes.push_back({.name = "data", .pv = "pv-1"});
  EXPECT_TRUE(
      shadow_difference(decided(Decision::Kind::Act, &one), decided(Decision::Kind::Act, &other)));
}

TEST_F(ShadowTest, a_side_without_a_verdict_has_a_word_all_the_same) {
  const Opinion failed;
  const auto found = shadow_difference(decided(Decision::Kind::Held, &failed),
                                       decided(Decision::Kind::Wait, &waits));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->observed, "hold");
  EXPECT_EQ(found->text, "observing: no verdict; enforcing: soon");
  EXPECT_EQ(shadow_difference(decided(Decision::Kind::Wait), decided(Decision::Kind::Forbidden))
                ->enforced,
            "forbid");
}

}  // namespace
}  // namespace moonfence::fence
