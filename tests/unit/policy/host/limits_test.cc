// The bounds of a run. What scripts try against them is in tests/hostile/.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

Error error_of(const std::string& body, port::CpuClock& clock, policy::Limits limits = {}) {
  auto policy = policy::Policy::load(policy_text(body), "test.lua", clock, limits);
  if (!policy) {
    return policy.error();
  }
  auto result = policy->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster());
  return result ? Error{Error::Kind::Unknown, "no error", ""} : result.error();
}

Error error_of(const std::string& body, policy::Limits limits = {}) {
  StoppedCpuClock clock;
  return error_of(body, clock, limits);
}

TEST(Limits, an_endless_loop_ends_with_both_figures) {
  const Error error = error_of("while true do end");
  EXPECT_EQ(error.kind, Error::Kind::Limit);
  EXPECT_THAT(error.text, MatchesRegex("test.lua:2: instruction limit: used 1000[0-9]+ of 1000000 "
                                       "instructions"));
}

TEST(Limits, memory_ends_with_both_figures) {
  const Error error = error_of("local t = {} for i = 1, 1e9 do t[i] = { i } end");
  EXPECT_EQ(error.kind, Error::Kind::Limit);
  EXPECT_THAT(error.text, MatchesRegex("test.lua: memory limit: used [0-9]+ of 4194304 bytes and "
                                       "asked for [0-9]+ more"));
}

TEST(Limits, cpu_time_ends_with_both_figures) {
  TickingCpuClock clock(std::chrono::milliseconds(2));
  const Error error = error_of("while true do end", clock);
  EXPECT_EQ(error.kind, Error::Kind::Limit);
  EXPECT_THAT(error.text, MatchesRegex("test.lua:2: CPU limit: used 5[0-9]ms of 50ms CPU time"));
}

TEST(Limits, deep_recursion_ends) {
  EXPECT_EQ(error_of("local function f() return 1 + f() end return f()").kind, Error::Kind::Limit);
}

TEST(Limits, a_text_that_doubles_ends) {
  EXPECT_EQ(error_of("local s = 'x' while true do s = s .. s end").kind, Error::Kind::Limit);
}

TEST(Limits, work_inside_of_host_functions_is_paid_for) {
  const std::string long_text = "local s = 'x' for i = 1, 19 do s = s .. s end ";
  for (const char* call : {"string.contains(s, 'ab')", "s:upper()", "s:lower()", "s:trim()",
                           "s:split('y')", "s:glob('*a*b')", "string.format('%s', s)",
                           "tonumber(s, 36)", "table.contains({ s }, 'a')"}) {
    const auto policy =
        load_text(policy_text(long_text + "for i = 1, 1000 do local x = " + call + " end"));
    ASSERT_TRUE(policy) << policy.error().text;
    const auto evaluation =
        policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster());
    ASSERT_FALSE(evaluation.verdict) << call;
    EXPECT_THAT(evaluation.verdict.error().text, HasSubstr("instruction limit")) << call;
    EXPECT_LE(evaluation.usage.memory_bytes, policy::Limits().memory_bytes);
  }
}

TEST(Limits, they_hold_for_the_chunk_and_at_load) {
  EXPECT_THAT(load_error("while true do end"), HasSubstr("instruction limit"));
  EXPECT_THAT(load_error("local s = 'x' while true do s = s .. s end"), HasSubstr("memory limit"));
}

TEST(Limits, tight_memory_is_an_error_wherever_it_strikes) {
  for (std::size_t bytes = 512; bytes < 40'000; bytes += 256) {
    const Error error = error_of("return fence.skip('x')", policy::Limits{.memory_bytes = bytes});
    if (error.text == "no error") {
      return;  // from here on it fits
    }
    ASSERT_EQ(error.kind, Error::Kind::Limit) << bytes << ": " << error.text;
  }
  FAIL() << "an evaluation needs more than 40,000 bytes";
}

TEST(Limits, a_script_that_ends_in_an_error_never_acts) {
  const auto result =
      evaluate_body(
          "local v = fence.delete_pod('x') local t = {} for i = 1, 1e9 do t[i] = v end "
          "return v")
          .verdict;
  EXPECT_FALSE(result);
}

TEST(Log, twenty_lines_are_kept_and_the_rest_counted) {
  const auto evaluation = evaluate_body(
      "for i = 1, 100 do log.info('line ' .. i) end log.warn('w\\n') return fence.skip('x')");
  ASSERT_TRUE(evaluation.verdict);
  ASSERT_EQ(evaluation.log.size(), 20U);
  EXPECT_EQ(evaluation.log.front(), "info: line 1");
  EXPECT_EQ(evaluation.log_dropped, 81U);
  EXPECT_EQ(evaluate_body("log.warn('w\\n\\27') return fence.skip('x')").log.front(),
            "warn: w\\n\\x1b");
}

}  // namespace
}  // namespace moonfence
