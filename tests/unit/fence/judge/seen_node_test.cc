#include "fence/judge/seen_node.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using std::chrono_literals::operator""s;

constexpr Moment kSent{100s};

TEST(SeenNode, the_age_of_a_lease_is_that_when_the_reading_was_sent) {
  EXPECT_EQ(lease_age_of({.lease_stands_since = kSent - 41s, .sent = kSent}), Duration(41s));
}

TEST(SeenNode, a_lease_that_was_read_for_the_first_time_has_no_age_yet) {
  EXPECT_EQ(lease_age_of({.lease_stands_since = kSent + 1s, .sent = kSent}), Duration::zero());
}

TEST(SeenNode, of_a_lease_that_was_not_read_nothing_is_told) {
  EXPECT_EQ(lease_age_of({.sent = kSent}), std::nullopt);
}

TEST(SeenNode, a_machine_is_called_by_the_words_of_detection) {
  for (const auto kernel : {cluster::Kernel::NotObservable, cluster::Kernel::Answers,
                            cluster::Kernel::Unsure, cluster::Kernel::Silent}) {
    EXPECT_EQ(policy::to_string(machine_of(kernel)), cluster::to_string(kernel));
  }
}

}  // namespace
}  // namespace moonfence::fence
