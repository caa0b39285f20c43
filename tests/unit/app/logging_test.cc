#include "app/logging.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace moonfence::app
