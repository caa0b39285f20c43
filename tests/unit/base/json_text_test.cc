#include "base/json_text.h"

#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence {
namespace {

using nlohmann::json;

std::string in_quotes(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string dumped(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

TEST(JsonText, every_byte_reads_as_the_library_writes_it) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = std::string("a") + static_cast<char>(byte) + "b";
    EXPECT_EQ(in_quotes(text), dumped(text)) << "byte " << byte;
  }
}

TEST(JsonText, what_is_no_utf8_is_replaced) {
  EXPECT_EQ(in_quotes("\xff"), "\"\xef\xbf\xbd\"");
  for (const std::string_view text :
       {"ab\xc3", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80x", "\xf0\x9f\x98\x80", "\"\xe9\""}) {
    EXPECT_EQ(in_quotes(text), dumped(text));
  }
}

// What came before it in the text stays, whichever way was taken.
TEST(JsonText, a_text_is_appended) {
  std::string out = "[";
  append_quoted(out, "");
  append_quoted(out, "a\\\"\n");
  append_quoted(out, "plain, then \x01 and \u00fc");
  EXPECT_EQ(out, R"(["""a\\\"\n""plain, then \u0001 and ü")");
}

TEST(JsonText, an_object_has_its_members_in_the_order_given) {
  std::string out;
  JsonObject object(out);
  object.set("b", "x");
  object.set("a\"", std::uint64_t{18446744073709551615U});
  object.set_if_any("none", "");
  object.set_if_any("some", "y");
  JsonObject inner(object.value_of("inner"));
  inner.set_true("c");
  inner.end();
  JsonObject(object.value_of("empty")).end();
  object.end();
  EXPECT_EQ(out,
            R"({"b":"x","a\"":18446744073709551615,"some":"y","inner":{"c":true},"empty":{}})");
}

}  // namespace
}  // namespace moonfence
