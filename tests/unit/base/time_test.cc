#include "base/time.h"

#include <gtest/gtest.h>

namespace moonfence {
namespace {

using namespace std::chrono_literals;

TEST(Durations, units_are_read_and_added_up) {
  EXPECT_EQ(parse_duration("90s"), 90s);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("7us3ns"), 7003ns);
  EXPECT_EQ(parse_duration("0"), 0ns);
}

TEST(Durations, what_would_be_a_guess_is_refused) {
  for (const char* text :
       {"", "5", "s", "-1s", "1.5s", "1 s", "1d", "9223372036854775807h", "1s!"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Durations, printed_form_is_read_back_to_the_same_value) {
  for (const Duration d : {Duration(0s), Duration(1s), Duration(90s), Duration(1h),
                           Duration(2500us), Duration(3661s), Duration(1500ms), Duration(1ns)}) {
    EXPECT_EQ(parse_duration(format_duration(d)), d) << format_duration(d);
  }
  EXPECT_EQ(format_duration(90s), "1m30s");
  EXPECT_EQ(format_duration(3600s), "1h");
}

TEST(Rfc3339, times_of_the_api_are_read) {
  const auto whole = parse_rfc3339("2026-01-02T03:04:05Z");
  ASSERT_TRUE(whole);
  EXPECT_EQ(format_rfc3339(*whole), "2026-01-02T03:04:05Z");
  EXPECT_EQ(parse_rfc3339("2026-01-02T03:04:05.25Z"), *whole + 250ms);
  EXPECT_EQ(parse_rfc3339("2026-01-02T05:04:05+02:00"), whole);
  EXPECT_EQ(format_rfc3339_micro(*whole + 6us), "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(format_rfc3339_micro(WallTime() - 1ns), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(format_rfc3339_micro(WallTime::max()), "2262-04-11T23:47:16.854775Z");
  EXPECT_EQ(format_rfc3339(WallTime::max()), "2262-04-11T23:47:16Z");
}

TEST(Rfc3339, anything_else_is_refused) {
  for (const char* text :
       {"", "2026-01-02", "2026-01-02 03:04:05Z", "2026-02-30T00:00:00Z", "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z", "0000-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z", "2026-01-02T03:04:05Zz"}) {
    EXPECT_EQ(parse_rfc3339(text), std::nullopt) << text;
  }
}

TEST(HttpDates, the_servers_date_header_is_read) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            parse_rfc3339("1994-11-06T08:49:37Z"));
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_date("Sun, 06 Foo 1994 08:49:37 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_date(""), std::nullopt);
}

}  // namespace
}  // namespace moonfence
