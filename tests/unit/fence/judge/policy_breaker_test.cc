#include "fence/judge/policy_breaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using policy::Evaluation;
using policy::Usage;
using policy::Verdict;

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

Evaluation good(Duration cpu = {}) {
  return {.verdict = Verdict{.reason = "because"}, .usage = {.cpu = cpu}};
}

Evaluation bad(Error::Kind kind = Error::Kind::Invalid) {
  return {.verdict = failure(kind, "db.lua:3: it broke")};
}

TEST(PolicyBreakerTest, five_errors_in_a_row_trip_it) {
  PolicyBreaker breaker;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(breaker.note("db", bad()), std::nullopt);
    EXPECT_TRUE(breaker.may_run("db"));
  }
  const auto why = breaker.note("db", bad());
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "failed 5 times in a row, last: db.lua:3: it broke");
  EXPECT_FALSE(breaker.may_run("db"));
  EXPECT_EQ(breaker.reason("db"), *why);
}

TEST(PolicyBreakerTest, a_success_in_between_starts_the_count_again) {
  PolicyBreaker breaker;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(breaker.note("db", i % 5 == 4 ? good() : bad()), std::nullopt);
  }
  EXPECT_TRUE(breaker.may_run("db"));
}

TEST(PolicyBreakerTest, one_broken_limit_trips_it) {
  PolicyBreaker breaker;
  const auto why = breaker.note("db", bad(Error::Kind::Limit));
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("broke a limit: db.lua:3"));
  EXPECT_FALSE(breaker.may_run("db"));
}

TEST(PolicyBreakerTest, cpu_time_adds_up_over_all_evaluations) {
  PolicyBreaker breaker;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(breaker.note("db", good(milliseconds(50))), std::nullopt);
  }
  EXPECT_TRUE(breaker.may_run("db")) << "2 s are allowed";
  const auto why = breaker.note("db", good(milliseconds(1)));
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("2s of CPU time"));
  EXPECT_FALSE(breaker.may_run("db"));
}

TEST(PolicyBreakerTest, cpu_time_counts_anew_with_each_pass) {
  PolicyBreaker breaker;
  for (int pass = 0; pass < 100; ++pass) {
    breaker.begin_pass();
    EXPECT_EQ(breaker.note("db", good(seconds(2))), std::nullopt);
  }
  EXPECT_TRUE(breaker.note("db", good(milliseconds(1))));
  breaker.begin_pass();
  EXPECT_FALSE(breaker.may_run("db")) << "what has tripped stays so";
}

TEST(PolicyBreakerTest, who_failed_in_one_pass_may_run_in_the_next_and_longer_each_time) {
  PolicyBreaker breaker({.errors_in_a_row = 2, .cpu = seconds(1)});
  for (const int errors : {2, 4, 8, 16}) {
    for (int i = 1; i < errors; ++i) {
      EXPECT_EQ(breaker.note("db", bad()), std::nullopt) << errors;
    }
    EXPECT_TRUE(breaker.note("db", bad())) << errors;
    breaker.begin_anew();
    EXPECT_TRUE(breaker.may_run("db"));
  }
}

TEST(PolicyBreakerTest, one_that_breaks_limits_may_break_more_in_the_next_pass) {
  PolicyBreaker breaker({.errors_in_a_row = 100, .cpu = seconds(1)});
  for (const int limits : {1, 2, 4}) {
    for (int i = 1; i < limits; ++i) {
      EXPECT_EQ(breaker.note("db", bad(Error::Kind::Limit)), std::nullopt) << limits;
      EXPECT_EQ(breaker.note("db", good(milliseconds(1))), std::nullopt) << limits;
    }
    EXPECT_TRUE(breaker.note("db", bad(Error::Kind::Limit))) << limits;
    breaker.begin_anew();
  }
}

// Those in front used the time of each pass up, and those behind were never asked about.
TEST(PolicyBreakerTest, whoever_used_its_time_up_is_asked_about_the_others_next) {
  PolicyBreaker breaker({.errors_in_a_row = 100, .cpu = seconds(1)});
  const auto pass = [&breaker] {
    std::string asked;
    for (const char* pod : {"a", "b", "c", "d", "e"}) {
      if (breaker.may_run("db") && breaker.has_turn("db", Uid(pod))) {
        breaker.asked("db", Uid(pod));
        (void)breaker.note("db", good(milliseconds(600)));
        asked += pod;
      }
    }
    breaker.begin_anew();
    return asked;
  };
  EXPECT_EQ(pass(), "ab");
  EXPECT_EQ(pass(), "cd");
  EXPECT_EQ(pass(), "e");
  EXPECT_EQ(pass(), "ab") << "all had their turn";
}

TEST(PolicyBreakerTest, errors_add_up_over_passes) {
  PolicyBreaker breaker;
  for (int pass = 0; pass < 4; ++pass) {
    breaker.begin_pass();
    EXPECT_EQ(breaker.note("db", bad()), std::nullopt);
  }
  breaker.begin_pass();
  EXPECT_TRUE(breaker.note("db", bad()));
}

TEST(PolicyBreakerTest, it_trips_once_and_for_that_policy_only) {
  PolicyBreaker breaker({.errors_in_a_row = 1, .cpu = seconds(1)});
  EXPECT_TRUE(breaker.note("db", bad()));
  EXPECT_EQ(breaker.note("db", bad()), std::nullopt);
  EXPECT_TRUE(breaker.may_run("web"));
  EXPECT_EQ(breaker.note("web", good()), std::nullopt);
  EXPECT_EQ(breaker.reason("web"), "");
  EXPECT_THAT(breaker.failing(), ElementsAre("db"));
}

TEST(PolicyBreakerTest, a_run_without_a_verdict_counts_the_same) {
  PolicyBreaker breaker({.errors_in_a_row = 2});
  const Error fault{.kind = Error::Kind::Invalid, .text = "no plan"};
  EXPECT_EQ(breaker.note("db", &fault, {}), std::nullopt);
  EXPECT_EQ(breaker.note("db", nullptr, {}), std::nullopt);
  EXPECT_EQ(breaker.note("db", &fault, {}), std::nullopt);
  EXPECT_TRUE(breaker.note("db", &fault, {}));
}

TEST(PolicyBreakerTest, a_reload_lets_everybody_run_again) {
  PolicyBreaker breaker;
  EXPECT_TRUE(breaker.note("db", bad(Error::Kind::Limit)));
  breaker.reset();
  EXPECT_TRUE(breaker.may_run("db"));
  EXPECT_TRUE(breaker.failing().empty());
  EXPECT_TRUE(breaker.note("db", bad(Error::Kind::Limit))) << "and it can trip again";
}

}  // namespace
}  // namespace moonfence::fence
