// What is found in a policy's text without running it.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/bundle/source_text.h"
#include "policy/host/policy.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A body that is compiled and never reached.
std::string unreached(const std::string& body) {
  return "if false then " + body + " end return fence.skip('x')";
}

std::string found(const std::string& body, const std::string& more = "") {
  return load_error(policy_text(unreached(body), more));
}

std::vector<std::string> warned(const std::string& body, const std::string& more = "") {
  const auto policy = load_text(policy_text(body + "\nreturn fence.skip('x')", more));
  EXPECT_TRUE(policy) << policy.error().text;
  return policy ? policy->warnings() : std::vector<std::string>();
}

TEST(Scan, unknown_names_are_found_where_nothing_runs) {
  EXPECT_EQ(found("fnce.skip('x')"), "test.lua:2: unknown global 'fnce' (did you mean 'fence'?)");
  EXPECT_EQ(found("\nreturn fence.delte_pod('x')"),
            "test.lua:3: unknown function 'delte_pod' of 'fence' (did you mean 'delete_pod'?)");
  EXPECT_EQ(found("return string.uper('x')"),
            "test.lua:2: unknown function 'uper' of 'string' (did you mean 'upper'?)");
  EXPECT_EQ(found("return table.unpack({})"), "test.lua:2: unknown function 'unpack' of 'table'");
  EXPECT_EQ(found("return math.hug"),
            "test.lua:2: unknown function 'hug' of 'math' (did you mean 'huge'?)");
  EXPECT_EQ(found("log.warning('x')"), "test.lua:2: unknown function 'warning' of 'log'");
  EXPECT_EQ(found("local f = function() return function() return fnce end end"),
            "test.lua:2: unknown global 'fnce' (did you mean 'fence'?)");
}

TEST(Scan, writes_to_the_environment_are_found) {
  EXPECT_THAT(found("x = 1"), HasSubstr("cannot set global 'x'"));
  EXPECT_THAT(found("function f() end"), HasSubstr("cannot set global 'f'"));
  EXPECT_THAT(found("local f = function() y = 1 end"), HasSubstr("cannot set global 'y'"));
  EXPECT_THAT(found("fence.skip = nil"), HasSubstr("cannot set 'skip' of 'fence'"));
}

TEST(Scan, the_first_by_line_is_reported) {
  EXPECT_THAT(found("\nlocal f = function()\n return aaa end\n bbb()"),
              HasSubstr("test.lua:4: unknown global 'aaa'"));
}

TEST(Scan, what_only_looks_like_a_global_is_left_alone) {
  EXPECT_EQ(found("local _ENV = {} x = y.z"), "");
  EXPECT_EQ(found("local _ENV = {} local f = function() x = y end"), "");
  EXPECT_EQ(found("-- fnce.skip\nlocal t = { fence = {} } local b = t.fence.nothing, '[[fnce]]'"),
            "");
  EXPECT_EQ(found("local fence = {} fence.nothing = 1"), "");
  EXPECT_EQ(found("local l = math if pod.ready then l = table end return l.huge"), "");
  EXPECT_EQ(found("local l = pod.ready and table or math return l.huge"), "");
}

TEST(Scan, a_field_that_needs_a_declaration_is_found) {
  EXPECT_EQ(found("return #pod.volumes"), "test.lua:2: pod.volumes: declare needs = { 'volumes' }");
  EXPECT_EQ(found("local f = function() return pod.siblings end"),
            "test.lua:2: pod.siblings: declare needs = { 'siblings' }");
  EXPECT_EQ(found("return pod.fetched"),
            "test.lua:2: pod.fetched: declare fetch = function(pod, s, got) ... end");
  EXPECT_EQ(found("return #pod.volumes", "needs = { 'volumes' },"), "");
  EXPECT_EQ(found("local t = {} return t.volumes"), "");
}

TEST(Scan, what_is_hardly_meant_is_a_warning) {
  EXPECT_THAT(warned("if false then return pod.lables end"),
              ElementsAre("test.lua:2: unknown field 'lables' of pod (did you mean 'labels'?)"));
  EXPECT_THAT(warned("", "needs = { 'volumes', 'placement' },"),
              ElementsAre("test.lua:1: needs 'volumes', which nothing reads",
                          "test.lua:1: needs 'placement', which nothing reads"));
  EXPECT_THAT(warned("local n = #pod.claims", "needs = { 'volumes' },"), IsEmpty());
  EXPECT_THAT(warned("", "settings = { a = { type = 'string', default = '' } },"),
              ElementsAre("test.lua:1: setting 'a' is never read"));
  EXPECT_THAT(warned("local a = s.a", "settings = { a = { type = 'string', default = '' } },"),
              IsEmpty());
}

// Only fields of `pod` were looked at; what is misspelt elsewhere showed in the middle of an
// incident.
TEST(Scan, fields_of_every_input_and_settings_are_looked_at) {
  EXPECT_THAT(warned("if false then return cluster.nodes_redy end"),
              ElementsAre("test.lua:2: unknown field 'nodes_redy' of cluster (did you mean "
                          "'nodes_ready'?)"));
  EXPECT_THAT(warned("if false then return node.lables end"),
              ElementsAre("test.lua:2: unknown field 'lables' of node (did you mean 'labels'?)"));
  EXPECT_THAT(warned("local f = function() return cluster.nodes_redy, s.nothing end"),
              ElementsAre(HasSubstr("'nodes_redy' of cluster"), HasSubstr("setting 'nothing'")));
  const std::string setting = "settings = { wait = { type = 'string', default = '' } },";
  EXPECT_THAT(warned("local a = s.wait if false then return s.wiat end", setting),
              ElementsAre("test.lua:2: unknown setting 'wiat' (did you mean 'wait'?)"));
  EXPECT_THAT(warned("local settings, cluster = {}, {} local x, y = settings.a, cluster.b"),
              IsEmpty())
      << "no parameters";
}

TEST(Scan, a_function_of_many_constants_is_a_warning) {
  std::string list = "local t = {";
  for (int i = 0; i < 251; ++i) {
    list += "'k" + std::to_string(i) + "',";
  }
  EXPECT_THAT(warned(list + "}"), Contains(HasSubstr("test.lua:1: this function has 25")));
}

TEST(Guard, a_policy_that_can_forbid_is_one) {
  const auto guard = [](const std::string& body) {
    return load_text(policy_text(body)).value().is_guard();
  };
  EXPECT_TRUE(guard("return fence.forbid('x')"));
  EXPECT_TRUE(guard("local f = fence return f.forbid('x')"));
  EXPECT_TRUE(guard("return fence['forbid']('x')"));
  EXPECT_TRUE(guard("local f = function() return fence.forbid('x') end return f()"));
  EXPECT_FALSE(guard("return fence.skip('we forbid nothing')"));
  EXPECT_FALSE(guard("-- fence.forbid\nreturn fence.skip('x')"));
}

TEST(Guard, it_is_known_of_a_text_that_does_not_compile) {
  EXPECT_TRUE(policy::mentions_objection("return fence.forbid('x') )"));
  EXPECT_TRUE(policy::mentions_objection("fence\n .  forbid"));
  EXPECT_TRUE(policy::mentions_objection("fence [ \"forbid\" ] ("));
  EXPECT_FALSE(policy::mentions_objection("-- fence.forbid\nreturn )"));
  EXPECT_FALSE(policy::mentions_objection("--[==[ fence.forbid ]] ]==] return )"));
  EXPECT_FALSE(policy::mentions_objection("log.info('fence.forbid') log.info([[fence.forbid]])"));
  EXPECT_FALSE(policy::mentions_objection("local s = 'a \\' fence.forbid'"));
  EXPECT_FALSE(policy::mentions_objection("local forbid = 1"));
  EXPECT_FALSE(policy::mentions_objection(""));
}

// What is never closed hides nothing.
TEST(Guard, an_open_string_or_comment_does_not_hide_it) {
  EXPECT_TRUE(policy::mentions_objection("local s = 'open\nreturn fence.forbid('x')"));
  EXPECT_TRUE(policy::mentions_objection("local s = [[open\nreturn fence.forbid('x')"));
  EXPECT_TRUE(policy::mentions_objection("--[[ open\nreturn fence.forbid('x')"));
  EXPECT_TRUE(policy::mentions_objection("local s = \"open '--' fence . forbid(1)"));
  EXPECT_TRUE(policy::mentions_objection("local s = \"open fence['forbid'](1)"));
  EXPECT_FALSE(policy::mentions_objection("local s = 'open\n-- fence.forbid"));
  // Each of these opens something that is never closed, and must not be searched for each.
  std::string quotes;
  std::string brackets;
  for (int i = 0; i < 500'000; ++i) {
    quotes += "\\\"";
    brackets += "[[ ";
  }
  EXPECT_TRUE(policy::mentions_objection(quotes + "\nfence.forbid()"));
  EXPECT_TRUE(policy::mentions_objection(brackets + "\nfence.forbid()"));
}

TEST(QuotedLine, it_is_the_line_the_error_names) {
  const std::string source = "one\n  two = 'x'\t\r\n\x1b[31m\n";
  EXPECT_EQ(policy::quoted_line(source, "a.lua:2: bad"), "    2 |   two = 'x'");
  EXPECT_EQ(policy::quoted_line(source, "a.lua:3: bad"), "    3 | \\x1b[31m");
  EXPECT_EQ(policy::quoted_line(source, "a.lua:9: bad"), "");
  EXPECT_EQ(policy::quoted_line(source, "a.lua: bad"), "");
  EXPECT_EQ(policy::quoted_line(source, "a.lua:x: bad"), "");
  EXPECT_EQ(policy::quoted_line("", ""), "");
}

}  // namespace
}  // namespace moonfence
