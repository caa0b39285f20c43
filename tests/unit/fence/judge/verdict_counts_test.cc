#include "fence/judge/verdict_counts.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using policy::Verdict;

std::string printed(const policy::Tally& tally) {
  return std::to_string(tally.seen) + " seen, " + std::to_string(tally.deleted) + " deleted, " +
         std::to_string(tally.held) + " held";
}

TEST(VerdictCounts, every_verdict_counts_where_it_belongs) {
  VerdictCounts verdict_counts;
  EXPECT_EQ(printed(verdict_counts.without("a", Uid("x"))), "0 seen, 0 deleted, 0 held");
  verdict_counts.note("a", Uid("1"), Verdict::Kind::Skip);
  verdict_counts.note("a", Uid("2"), Verdict::Kind::Forbid);
  verdict_counts.note("a", Uid("3"), Verdict::Kind::Wait);
  verdict_counts.note("a", Uid("4"), Verdict::Kind::DeletePod);
  verdict_counts.note("a", Uid("5"), Verdict::Kind::DeletePodAndAttachments);
  verdict_counts.note("a", Uid("6"), Verdict::Kind::DeleteAttachments);
  verdict_counts.note("b", Uid("1"), Verdict::Kind::DeletePod);
  EXPECT_EQ(printed(verdict_counts.without("a", Uid("x"))), "6 seen, 3 deleted, 2 held");
  EXPECT_EQ(printed(verdict_counts.without("b", Uid("x"))), "1 seen, 1 deleted, 0 held");
}

TEST(VerdictCounts, a_pod_does_not_count_towards_itself) {
  VerdictCounts verdict_counts;
  verdict_counts.note("a", Uid("1"), Verdict::Kind::DeletePod);
  verdict_counts.note("a", Uid("2"), Verdict::Kind::Wait);
  EXPECT_EQ(printed(verdict_counts.without("a", Uid("1"))), "1 seen, 0 deleted, 1 held");
  EXPECT_EQ(printed(verdict_counts.without("a", Uid("2"))), "1 seen, 1 deleted, 0 held");
}

TEST(VerdictCounts, the_newest_word_on_a_pod_replaces_the_older) {
  VerdictCounts verdict_counts;
  verdict_counts.note("a", Uid("1"), Verdict::Kind::Wait);
  verdict_counts.note("a", Uid("1"), Verdict::Kind::DeletePod);
  verdict_counts.note("a", Uid("1"), Verdict::Kind::DeletePod);
  EXPECT_EQ(printed(verdict_counts.without("a", Uid("x"))), "1 seen, 1 deleted, 0 held");
}

}  // namespace
}  // namespace moonfence::fence
