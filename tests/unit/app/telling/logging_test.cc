#include "app/telling/logging.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::app {
namespace {

std::string value(std::string_view text) {
  return log_line("event", {{"key", text}});
}

TEST(LogLine, fields_follow_their_event_in_order) {
  EXPECT_EQ(log_line("started", {}), "started");
  EXPECT_EQ(log_line("synced", {{"nodes", 5}, {"mode", "observe"}, {"delta", -1}}),
            "synced nodes=5 mode=observe delta=-1");
}

TEST(LogLine, what_would_be_ambiguous_is_quoted) {
  EXPECT_EQ(value(""), R"(event key="")");
  EXPECT_EQ(value("two words"), R"(event key="two words")");
  EXPECT_EQ(value("a=b"), R"(event key="a=b")");
  EXPECT_EQ(value("db/web-0"), "event key=db/web-0");
}

TEST(LogLine, nothing_from_outside_forges_a_line_or_a_field) {
  EXPECT_EQ(value("a\nERROR forged=1"), R"(event key="a\nERROR forged=1")");
  EXPECT_EQ(value("x\" forged=\"1"), R"(event key="x\" forged=\"1")");
  EXPECT_EQ(value("\x1b[31m"), R"(event key="\x1b[31m")");
  EXPECT_EQ(value("a\rb\tc"), R"(event key="a\rb\tc")");
  EXPECT_EQ(value("\\n"), R"(event key="\\n")");
}

TEST(LogLine, bytes_that_are_no_text_are_shown_as_such) {
  EXPECT_EQ(value("\xff"), R"(event key="\xff")");
  EXPECT_EQ(value("\xc3\xa4"), "event key=\xc3\xa4");
}

TEST(LogLine, a_value_without_end_is_cut) {
  EXPECT_LT(value(std::string(1U << 20U, 'x')).size(), 2000U);
}

std::string json_value(std::string_view text) {
  return json_log_line(*parse_rfc3339("2026-01-02T03:04:05.000006Z"), port::Log::Level::Warning,
                       "event", {{"key", text}});
}

TEST(JsonLogLine, time_level_and_event_stand_first) {
  EXPECT_EQ(json_value("two words"),
            R"({"time":"2026-01-02T03:04:05.000006Z","level":"warning","event":"event",)"
            R"("key":"two words"})");
}

TEST(JsonLogLine, nothing_from_outside_forges_a_line_or_a_field) {
  const std::string nasty = "a\n\x1b[31m\",\"level\":\"error\xff\xc3\xa4";
  const std::string line = json_value(nasty);
  EXPECT_EQ(line.find_first_of("\n\x1b\xff\xc3"), std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["level"], "warning");
  EXPECT_EQ(parsed["key"], "a\n\x1b[31m\",\"level\":\"error\xef\xbf\xbd\xc3\xa4");
}

TEST(JsonLogLine, a_value_without_end_is_cut) {
  EXPECT_LT(json_value(std::string(1U << 20U, 'x')).size(), 2000U);
}

}  // namespace
}  // namespace moonfence::app
