#include "kube/text/json.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::kube {
namespace {

using nlohmann::json;

TEST(ParseJson, text_that_is_not_json_is_malformed_and_never_throws) {
  for (const std::string text :
       {"", "{", "nul", "{\"a\":1}x", "[1,]", "{\"a\":\"\xff\"}", "{\"a\":1e999}", "\x00\x01"}) {
    const auto parsed = parse_json(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, Error::Kind::Malformed);
  }
}

TEST(ParseJson, nesting_is_bounded) {
  const auto nested = [](int levels) {
    const auto count = static_cast<std::size_t>(levels);
    return std::string(count, '[') + std::string(count, ']');
  };
  EXPECT_TRUE(parse_json(nested(64)));
  EXPECT_FALSE(parse_json(nested(65)));
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
  EXPECT_TRUE(parse_json("\"" + std::string(100, '[') + "\"")) << "brackets in strings do not nest";
}

TEST(ParseJson, the_last_of_two_equal_keys_wins) {
  EXPECT_EQ((*parse_json(R"({"a":1,"a":2})"))["a"], 2);
}

TEST(ParseJson, a_lost_tail_is_told_from_garbage) {
  EXPECT_TRUE(is_cut_short(""));
  EXPECT_TRUE(is_cut_short(R"({"a":[1,2)"));
  EXPECT_TRUE(is_cut_short(R"({"a":"b)"));
  EXPECT_FALSE(is_cut_short(R"({"a":"}"})"));
  EXPECT_FALSE(is_cut_short("<html>"));
}

TEST(ToText, invalid_utf8_does_not_throw) {
  EXPECT_FALSE(to_text(json("\xff")).empty());
}

TEST(Fields, missing_and_null_give_defaults) {
  const json value = {{"a", nullptr}, {"b", {{"c", nullptr}}}};
  Fields fields(value);
  EXPECT_EQ(fields.string({"a"}), "");
  EXPECT_EQ(fields.string({"a", "x"}), "");
  EXPECT_EQ(fields.integer({"b", "c"}, 7), 7);
  EXPECT_FALSE(fields.boolean({"x", "y", "z"}));
  EXPECT_EQ(fields.object({"x"}), nullptr);
  EXPECT_EQ(fields.array({"x"}), nullptr);
  EXPECT_EQ(fields.time({"x"}), std::nullopt);
  EXPECT_FALSE(fields.fault());
}

TEST(Fields, a_wrong_type_is_malformed_and_names_the_field) {
  const json value = {{"a", {{"b/c.d", 5}}}, {"s", "x"}, {"big", 18446744073709551615U}};
  const auto fault = [&value](auto look) {
    Fields fields(value, "pod");
    look(fields);
    return fields.fault() ? fields.fault()->text : "";
  };
  EXPECT_EQ(fault([](Fields& f) {
              (void)f.string({"a", "b/c.d"});
            }),
            "pod.a.b/c.d: expected a string, found number");
  EXPECT_NE(fault([](Fields& f) { (void)f.integer({"s"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.integer({"big"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.boolean({"s"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.time({"s"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.object({"s"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.array({"a"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.strings({"a"}); }), "");
  EXPECT_NE(fault([](Fields& f) { (void)f.string({"s", "t"}); }), "");
  EXPECT_EQ(fault([](Fields& f) { (void)f.required({"t"}); }), "pod.t: is required");
}

TEST(Fields, the_first_fault_is_kept) {
  const json value = {{"a", 1}, {"b", 2}};
  Fields fields(value);
  (void)fields.string({"a"});
  (void)fields.string({"b"});
  EXPECT_EQ(fields.fault()->text, "a: expected a string, found number");
}

TEST(Fields, only_an_object_has_fields) {
  const json value = json::array();
  EXPECT_TRUE(Fields(value).fault());
}

}  // namespace
}  // namespace moonfence::kube
