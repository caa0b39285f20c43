#include "app/status/html.h"

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

std::string of(const std::string& text) {
  return (Html() << text).text();
}

TEST(Html, literals_are_markup_and_values_are_text) {
  const std::string name = "<script>alert('x')</script> & \"y\"";
  EXPECT_EQ((Html() << "<p>" << name << "</p>").text(),
            "<p>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;</p>");
  EXPECT_EQ((Html() << "<b>" << std::string_view("<") << 42 << "</b>").text(), "<b>&lt;42</b>");
}

TEST(Html, a_part_is_not_escaped_twice) {
  const Html part = Html() << "<i>" << std::string("&") << "</i>";
  EXPECT_EQ((Html() << part).text(), "<i>&amp;</i>");
}

TEST(Html, what_is_no_text_is_shown_as_such) {
  EXPECT_EQ(of(std::string("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(of("a\x1b[31mb"), "a\xEF\xBF\xBD[31mb");
  EXPECT_EQ(of("a\xff"), "a\xEF\xBF\xBD");
  EXPECT_EQ(of("line\nline\tend"), "line\nline\tend");
  EXPECT_EQ(of("müde ✓"), "müde ✓");
}

TEST(Html, nothing_turns_the_direction_of_writing) {
  for (const char* turn : {"\xE2\x80\xAA", "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA9"}) {
    EXPECT_EQ(of(std::string("web-") + turn + "0"),
              "web-\xEF\xBF\xBD"
              "0");
  }
  EXPECT_EQ(of("\xE2\x80\xA6"), "\xE2\x80\xA6");  // an ellipsis
}

}  // namespace
}  // namespace moonfence::app
