#include "base/text.h"

#include <array>

#include <gtest/gtest.h>

namespace moonfence {
namespace {

TEST(Utf8, it_is_told_from_other_bytes) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\n\u00e9\u20ac\U0001F600"));
  EXPECT_FALSE(is_utf8("\xe9t\xe9"));
  EXPECT_FALSE(is_utf8("ab\xc3"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80")) << "a surrogate";
  EXPECT_FALSE(is_utf8("\xc0\x80")) << "an overlong form";
}

TEST(Escaped, nothing_from_outside_can_forge_a_line_or_paint_a_terminal) {
  EXPECT_EQ(escaped("plain über"), "plain über");
  EXPECT_EQ(escaped("a\nb\r\"c\"\\"), "a\\nb\\r\\\"c\\\"\\\\");
  EXPECT_EQ(escaped("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\u009b31m");
  EXPECT_EQ(escaped("\xff\xc0\x80"), "\\xff\\xc0\\x80");
}

TEST(Escaped, a_cut_never_splits_a_character) {
  EXPECT_EQ(escaped("ääää", 5), "ää…");
  EXPECT_EQ(escaped("abc", 3), "abc");
}

TEST(Nearest, a_slip_of_the_finger_is_recognised) {
  constexpr std::array<std::string_view, 3> kKnown = {"labels", "namespace", "phase"};
  EXPECT_EQ(nearest("lables", kKnown), "labels");
  EXPECT_EQ(nearest("Namespace", kKnown), "namespace");
  EXPECT_EQ(nearest("volumes", kKnown), std::nullopt);
  EXPECT_EQ(did_you_mean("phsae", kKnown), " (did you mean 'phase'?)");
  EXPECT_EQ(did_you_mean("xyz", kKnown), "");
}

TEST(Split, empty_parts_are_kept) {
  EXPECT_EQ(split("a::b", ':'), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ':'), std::vector<std::string_view>{""});
}

TEST(Trimmed, white_space_around_goes) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
}

}  // namespace
}  // namespace moonfence
