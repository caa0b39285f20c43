#include "cluster/endpoints/xml.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::cluster {
namespace {

using nlohmann::json;

json read(const std::string& text) {
  const auto parsed = parse_xml(text);
  return parsed ? *parsed : json("error: " + parsed.error().text);
}
Error::Kind kind_of(const std::string& text) {
  const auto parsed = parse_xml(text);
  return parsed ? Error::Kind::Unknown : parsed.error().kind;
}
std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

TEST(Xml, elements_are_objects_and_texts_and_lists_of_items) {
  EXPECT_EQ(read("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<R xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\n"
                 "  <id>59d</id><empty/>\n"
                 "  <one><item><a>1</a></item></one>\n"
                 "  <two><item>x &amp; &#228;</item><item><![CDATA[<y>]]></item></two>\n"
                 "  <who><member>m</member></who><!-- not read -->\n"
                 "</R>"),
            (json{{"R",
                   {{"id", "59d"},
                    {"empty", ""},
                    {"one", {{{"a", "1"}}}},
                    {"two", {"x & ä", "<y>"}},
                    {"who", {"m"}}}}}));
  EXPECT_EQ(read("<R> \n </R>"), (json{{"R", " \n "}}));
}

TEST(Xml, what_could_be_read_in_two_ways_is_not_read) {
  for (const char* text : {"<R><a>1</a><a>1</a></R>", "<R><a/>text</R>", "<R>text<a/></R>",
                           "<R><a/>text<b/></R>", "<R><item/><a/></R>", "<R><a/><item/></R>",
                           "<R/><R/>", "<R></r>", "<R", "", "  ", "<R>&unknown;</R>", "<R>\xff</R>",
                           "<R a='1' a='2'/>", "{}", "<R>", "text", "<R>\x01</R>", "<R>&#0;</R>"}) {
    EXPECT_EQ(kind_of(text), Error::Kind::Malformed) << text;
  }
}

TEST(Xml, the_encoding_that_it_claims_is_not_believed) {
  EXPECT_EQ(read("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><R>\xc3\xa4</R>"),
            (json{{"R", "ä"}}));
}

TEST(Xml, a_doctype_is_refused_and_nothing_of_it_is_expanded) {
  const std::string laughs =
      "<?xml version=\"1.0\"?><!DOCTYPE R [<!ENTITY a \"ha\">"
      "<!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">]>";
  for (const std::string& text :
       {laughs + "<R>&c;</R>", std::string("<!DOCTYPE R><R>off</R>"),
        std::string("<!DOCTYPE R SYSTEM \"file:///etc/passwd\"><R/>"),
        std::string("<!DOCTYPE R [<!ENTITY x SYSTEM \"http://other/\">]><R>&x;</R>"),
        std::string("<!DOCTYPE R [<!ATTLIST R a CDATA \"b\">]><R/>")}) {
    EXPECT_EQ(read(text), "error: XML: it has a DOCTYPE, which is not read") << text;
  }
}

TEST(Xml, depth_and_number_are_limited) {
  const auto nested = [](std::size_t depth) {
    return repeated("<a>", depth) + repeated("</a>", depth);
  };
  EXPECT_EQ(kind_of(nested(kXmlDepth)), Error::Kind::Unknown);
  EXPECT_EQ(kind_of(nested(kXmlDepth + 1)), Error::Kind::Limit);
  EXPECT_EQ(kind_of(nested(1'000'000)), Error::Kind::Limit);
  const auto many = [](std::size_t count) { return "<R>" + repeated("<item/>", count) + "</R>"; };
  EXPECT_EQ(kind_of(many(kXmlElements - 1)), Error::Kind::Unknown);
  EXPECT_EQ(kind_of(many(kXmlElements)), Error::Kind::Limit);
}

TEST(Xml, cut_short_anywhere_it_is_no_answer) {
  const std::string whole = "<R><a>1</a><b><item>2</item></b></R>";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(kind_of(whole.substr(0, length)), Error::Kind::Malformed) << length;
  }
}

}  // namespace
}  // namespace moonfence::cluster
