#include "fence/judge/failed_acts.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;

struct FailedActsTest : testing::Test {
  Moment t0 = Moment{} + 1h;
  FailedActs failed;
  PassContext context;
  std::string act = "release va-1";
  ActionOutcome refused = {.reason = Reason::Refused, .retry_after = std::nullopt};

  // Passes at these moments, in which the act fails whenever it is tried. When it was.
  std::vector<Duration> tried(const std::vector<Duration>& passes) {
    std::vector<Duration> found;
    for (const Duration at : passes) {
      PassResult result;
      failed.begin_pass(context, t0 + at);
      if (!failed.still_failed(act, result)) {
        found.push_back(at);
        failed.fail(act, "a release", refused, result, t0 + at);
      }
      EXPECT_EQ(result.failed, 1U) << "it is told in every pass";
      EXPECT_EQ(result.failed_for, refused.reason);
      next = result.look_at;
    }
    return found;
  }
  std::optional<Moment> next;  // by the last pass
};

TEST_F(FailedActsTest, it_keeps_its_pace_however_often_passes_begin) {
  const std::vector<Duration> looks = {0s,  50ms, 150ms, 4999ms, 5s,  6s,  10s, 15s,
                                       20s, 25s,  29s,   30s,    49s, 50s, 89s, 90s};
  EXPECT_EQ(tried(looks), (std::vector<Duration>{0s, 5s, 10s, 15s, 20s, 30s, 50s, 90s}));
  EXPECT_EQ(next, t0 + 150s);
}

TEST_F(FailedActsTest, each_has_a_pace_of_its_own) {
  refused.reason = Reason::Retryable;
  refused.retry_after = 5min;
  EXPECT_EQ(tried({0s}), std::vector<Duration>{0s});
  EXPECT_EQ(next, t0 + 5min);
  act = "another";
  refused.retry_after.reset();
  EXPECT_EQ(tried({1s, 2s, 6s}), (std::vector<Duration>{1s, 6s}))
      << "that of the first one is not its own";
}

TEST_F(FailedActsTest,
       in_another_stretch_it_is_tried_at_once_but_not_what_the_server_asked_to_spare) {
  EXPECT_EQ(tried({0s, 5s, 10s, 15s, 20s, 21s}).size(), 5U);
  ++context.stretch;
  EXPECT_EQ(tried({22s, 23s, 27s}), (std::vector<Duration>{22s, 27s})) << "in a window of its own";
  refused.reason = Reason::Retryable;
  refused.retry_after = 30s;
  EXPECT_EQ(tried({32s}).size(), 1U);
  ++context.stretch;
  EXPECT_EQ(tried({40s, 61s, 62s}), std::vector<Duration>{62s});
}

TEST_F(FailedActsTest, a_node_that_was_changed_in_between_cost_a_request_too) {
  for (const Reason reason : {Reason::OutcomeLost, Reason::NodeChanged, Reason::VersionUnknown}) {
    act = audit::code(reason);
    refused.reason = reason;
    EXPECT_EQ(tried({0s, 50ms}).size(), 1U) << act;
  }
}

TEST_F(FailedActsTest, what_we_refuse_ourselves_is_looked_at_in_every_pass) {
  refused.reason = Reason::NotRecorded;
  EXPECT_EQ(tried({0s, 50ms}).size(), 2U);
  EXPECT_EQ(next, t0 + 5050ms);
}

// After a call that took long our Lease is too short for a moment; the pauses went on growing by it
// (scenario F-16).
TEST_F(FailedActsTest, what_we_refused_before_we_asked_the_server_does_not_prolong_the_pauses) {
  for (int i = 0; i < 20; ++i) {
    const Duration at = i * 200s;
    refused.reason = Reason::NotLeader;
    EXPECT_EQ(tried({at}).size(), 1U);
    EXPECT_EQ(next, t0 + at + 5s);
    refused.reason = Reason::OutcomeLost;
    EXPECT_EQ(tried({at + 100s}).size(), 1U);
  }
}

TEST_F(FailedActsTest, what_was_done_after_all_has_not_failed) {
  EXPECT_EQ(tried({0s}).size(), 1U);
  failed.succeeded(act);
  EXPECT_EQ(tried({1s}).size(), 1U);
}

}  // namespace
}  // namespace moonfence::fence
