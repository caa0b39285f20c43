#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

using testing::HasSubstr;

std::string declared(const std::string& setting) {
  return "settings = { x = " + setting + " },";
}

std::string shown(const std::string& setting) {
  return value_of("s.x", declared(setting));
}

std::string refused(const std::string& setting) {
  return load_error(policy_text("return fence.skip('x')", declared(setting)));
}

TEST(Settings, each_type_reaches_the_script) {
  EXPECT_EQ(shown("{ type = 'string', default = '' }"), "");
  EXPECT_EQ(shown("{ type = 'integer', default = 3, min = 1, max = 5 }"), "3");
  EXPECT_EQ(shown("{ type = 'number', default = 0.5, clamp = true }"), "0.5");
  EXPECT_EQ(shown("{ type = 'boolean', default = false, doc = 'what' }"), "false");
  EXPECT_EQ(shown("{ type = 'duration', default = '1m30s', min = '5s' }"), "90");
  EXPECT_EQ(shown("{ type = 'duration', default = '1500ms' }"), "1.5");
  EXPECT_EQ(shown("{ type = 'enum', values = { 'a', 'b' }, default = 'b' }"), "b");
  EXPECT_EQ(value_of("#s.x .. s.x[3]", declared("{ type='list', of='integer', default={5,6,7} }")),
            "37");
  EXPECT_EQ(value_of("table.contains(s.x, 'b')",
                     declared("{ type='list', of='string', default={'a','b'} }")),
            "true");
}

TEST(Settings, an_impossible_declaration_is_refused) {
  EXPECT_THAT(refused("7"), HasSubstr("settings.x must be a table, not an integer"));
  EXPECT_THAT(refused("{}"), HasSubstr("settings.x.type is missing"));
  EXPECT_THAT(refused("{ type = 'int', default = 1 }"), HasSubstr("is the unknown type 'int'"));
  EXPECT_THAT(refused("{ type = 'integr', default = 1 }"), HasSubstr("did you mean 'integer'?"));
  EXPECT_THAT(refused("{ type = 'integer' }"), HasSubstr("settings.x.default is missing"));
  EXPECT_THAT(refused("{ type = 'integer', default = 1.5 }"), HasSubstr("must be an integer"));
  EXPECT_THAT(refused("{ type = 'integer', default = '1' }"), HasSubstr("not a text"));
  EXPECT_THAT(refused("{ type = 'number', default = 0/0 }"), HasSubstr("finite"));
  EXPECT_THAT(refused("{ type = 'integer', default = 1, min = 2 }"), HasSubstr("below its min"));
  EXPECT_THAT(refused("{ type = 'duration', default = '2h', max = '1h' }"),
              HasSubstr("above its max"));
  EXPECT_THAT(refused("{ type = 'integer', default = 1, min = 2, max = 1 }"),
              HasSubstr("has a min above its max"));
  EXPECT_THAT(refused("{ type = 'string', default = '', min = 2 }"), HasSubstr("is only for"));
  EXPECT_THAT(refused("{ type = 'string', default = '', clamp = true }"), HasSubstr("is only for"));
  EXPECT_THAT(refused("{ type = 'string', default = '', values = {'a'} }"),
              HasSubstr("is only for enum"));
  EXPECT_THAT(refused("{ type = 'enum', default = 'c', values = { 'a', 'b' } }"),
              HasSubstr("is 'c', which is not one of: a, b"));
  EXPECT_THAT(refused("{ type = 'enum', default = 'a', values = {} }"), HasSubstr("not be empty"));
  EXPECT_THAT(refused("{ type = 'enum', default = 'a' }"), HasSubstr("values is missing"));
  EXPECT_THAT(refused("{ type = 'list', default = {} }"), HasSubstr("of is missing"));
  EXPECT_THAT(refused("{ type = 'list', of = 'list', default = {} }"),
              HasSubstr("must be string, integer or number"));
  EXPECT_THAT(refused("{ type = 'list', of = 'string', default = { 1 } }"),
              HasSubstr("default[1] must be a text"));
  EXPECT_THAT(refused("{ type = 'list', of = 'string', default = { a = 1 } }"),
              HasSubstr("plain list"));
  EXPECT_THAT(refused("{ type = 'duration', default = '5' }"), HasSubstr("is no duration"));
  EXPECT_THAT(refused("{ type = 'string', defualt = '' }"), HasSubstr("did you mean 'default'?"));
  EXPECT_THAT(load_error(policy_text("", "settings = { ['a-b'] = {} },")),
              HasSubstr("as a name that is not"));
}

// ---- values of a binding ---------------------------------------------------------------------

constexpr const char* kDeclared =
    "settings = { text = { type = 'string', default = 'a' }, "
    "count = { type = 'integer', default = 3, min = 1, max = 20 }, "
    "share = { type = 'number', default = 0.5, min = 0, max = 1, clamp = true }, "
    "on = { type = 'boolean', default = false }, "
    "every = { type = 'duration', default = '30s', min = '5s', max = '1h' }, "
    "soft = { type = 'duration', default = '30s', min = '5s', max = '1h', clamp = true }, "
    "kind = { type = 'enum', values = { 'skip', 'delete-pod' }, default = 'skip' }, "
    "names = { type = 'list', of = 'string', default = {} }, "
    "sizes = { type = 'list', of = 'integer', default = { 1 } } },"
    "trigger = function(s) return { failures = s.count, interval = s.every } end,";

Result<policy::Policy> bound(const nlohmann::json& values) {
  auto policy = load_text(policy_text(
      "return fence.skip(s.text .. s.count .. s.share .. tostring(s.on) .. s.every .. s.kind .. "
      "#s.names .. s.sizes[1])",
      kDeclared));
  EXPECT_TRUE(policy) << policy.error().text;
  return policy->with_settings(values);
}

std::string unbound(const nlohmann::json& values) {
  const auto policy = bound(values);
  return policy ? "" : policy.error().text;
}

std::string reason_of(const policy::Policy& policy) {
  return policy.decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster())->reason;
}

TEST(Binding, its_values_reach_script_and_trigger) {
  const auto policy = bound({{"text", "b"},
                             {"count", 7},
                             {"share", 1},
                             {"on", true},
                             {"every", "1m30s"},
                             {"kind", "delete-pod"},
                             {"names", {"x", "y"}},
                             {"sizes", {9, 8}}});
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_EQ(reason_of(*policy), "b71true90delete-pod29");
  EXPECT_EQ(policy->trigger().failures, 7U);
  EXPECT_EQ(policy->trigger().interval, std::chrono::seconds(90));
  EXPECT_EQ(policy->settings_values().at("every"), 90);
  EXPECT_EQ(policy->settings_values().at("soft"), 30);
  EXPECT_THAT(policy->notices(), testing::IsEmpty());
}

TEST(Binding, what_it_leaves_out_keeps_its_default) {
  for (const nlohmann::json& values : {nlohmann::json::object(), nlohmann::json()}) {
    const auto policy = bound(values);
    ASSERT_TRUE(policy) << policy.error().text;
    EXPECT_EQ(reason_of(*policy), "a30.5false30skip01");
    EXPECT_EQ(policy->trigger().failures, 3U);
  }
}

TEST(Binding, a_rule_that_is_broken_names_setting_value_and_rule) {
  const auto refused_as = [](const std::string& rule) { return "test.lua: " + rule; };
  EXPECT_EQ(unbound({{"cuont", 1}}), refused_as("unknown setting 'cuont' (did you mean 'count'?)"));
  EXPECT_EQ(unbound({{"count", "3"}}),
            refused_as("setting 'count' is '3', but must be an integer"));
  EXPECT_EQ(unbound({{"count", 2.5}}),
            refused_as("setting 'count' is 2.5, but must be an integer"));
  EXPECT_EQ(unbound({{"count", 21}}),
            refused_as("setting 'count' is 21, which is above its max 20"));
  EXPECT_EQ(unbound({{"count", 0}}), refused_as("setting 'count' is 0, which is below its min 1"));
  EXPECT_EQ(unbound({{"count", UINT64_MAX}}),
            refused_as("setting 'count' is 18446744073709551615, but must be at most "
                       "9223372036854775807"));
  EXPECT_EQ(unbound({{"on", "true"}}),
            refused_as("setting 'on' is 'true', but must be true or false"));
  EXPECT_EQ(unbound({{"every", 30}}),
            refused_as("setting 'every' is 30, but must be a duration, a text such as 30s"));
  EXPECT_EQ(unbound({{"every", "soon"}}),
            refused_as("setting 'every' is 'soon', which is no duration; write a number with a "
                       "unit, such as 30s"));
  EXPECT_EQ(unbound({{"every", "1s"}}),
            refused_as("setting 'every' is '1s', which is below its min 5s"));
  EXPECT_EQ(
      unbound({{"kind", "delete-pods"}}),
      refused_as("setting 'kind' is 'delete-pods', which is not one of: skip, delete-pod (did "
                 "you mean 'delete-pod'?)"));
  EXPECT_EQ(unbound({{"names", "x"}}), refused_as("setting 'names' is 'x', but must be a list"));
  EXPECT_EQ(unbound({{"names", {"x", 1}}}),
            refused_as("setting 'names' is a list, whose item 2 is 1, but must be a text"));
  EXPECT_EQ(
      unbound({{"sizes", nlohmann::json::array({nlohmann::json::array()})}}),
      refused_as("setting 'sizes' is a list, whose item 1 is a list, but must be an integer"));
  EXPECT_EQ(unbound({{"text", nlohmann::json::object()}}),
            refused_as("setting 'text' is a map, but must be a text"));
  EXPECT_EQ(unbound({{"text", nullptr}}), refused_as("setting 'text' is null, but must be a text"));
  EXPECT_EQ(unbound({{"text", "\xff"}}).find("test.lua: setting 'text' is "), 0U);
  EXPECT_EQ(unbound("text"), refused_as("settings is 'text', but must be a map"));
}

TEST(Binding, every_broken_rule_is_named_at_once) {
  EXPECT_EQ(unbound({{"count", 0}, {"on", 1}, {"zzz", 1}}),
            "test.lua: setting 'count' is 0, which is below its min 1; setting 'on' is 1, but "
            "must be true or false; unknown setting 'zzz'");
  const auto policy = load_text(policy_text("return fence.skip('x')"));
  EXPECT_EQ(policy->with_settings({{"a", 1}}).error().text,
            "test.lua: unknown setting 'a'; the policy declares none");
}

TEST(Binding, sizes_are_bounded) {
  EXPECT_THAT(unbound({{"text", std::string(1025, 'x')}}),
              HasSubstr("but must have at most 1024 bytes"));
  EXPECT_THAT(unbound({{"names", std::vector<std::string>(257, "x")}}),
              HasSubstr("a list, of 257 items; it may have at most 256"));
  EXPECT_EQ(unbound({{"names", std::vector<std::string>(256, "x")}}), "");
}

TEST(Binding, a_value_that_may_be_clamped_moves_with_a_notice) {
  const auto policy = bound({{"share", 7}, {"soft", "1ms"}});
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_EQ(policy->settings_values().at("share"), 1.0);
  EXPECT_EQ(policy->settings_values().at("soft"), 5);
  EXPECT_THAT(policy->notices(),
              testing::ElementsAre("setting 'share' is 7, above its max 1: 1 is used",
                                   "setting 'soft' is '1ms', below its min 5s: 5s is used"));
}

TEST(Binding, a_trigger_that_its_values_make_impossible_is_refused) {
  const auto policy = load_text(policy_text(
      "return fence.skip('x')",
      "settings = { n = { type = 'integer', default = 1 } }, trigger = function(s) return { "
      "failures = s.n } end,"));
  EXPECT_THAT(policy->with_settings({{"n", 0}}).error().text,
              HasSubstr("failures must be an integer from 1 to 1000"));
}

TEST(Digest, it_covers_source_and_settings) {
  const auto plain = bound({});
  const auto same = bound({{"text", "a"}, {"count", 3}});
  const auto other = bound({{"text", "b"}});
  const auto ordered = bound({{"text", "b"}, {"on", true}});
  const auto disordered = bound({{"on", true}, {"text", "b"}});
  EXPECT_EQ(plain->digest(), plain->source_digest());
  EXPECT_EQ(same->digest(), plain->digest());
  EXPECT_NE(other->digest(), plain->digest());
  EXPECT_EQ(other->source_digest(), plain->source_digest());
  EXPECT_EQ(ordered->digest(), disordered->digest());
  EXPECT_EQ(bound({{"share", 5}})->digest(), bound({{"share", 1.0}})->digest());
  EXPECT_EQ(other->with_settings({})->digest(), plain->digest());
}

TEST(Settings, the_declaration_can_be_read) {
  const auto policy = bound({});
  const auto& settings = policy->settings();
  EXPECT_EQ(settings.size(), 9U);
  EXPECT_EQ(to_string(settings.at("every").type), "duration");
  EXPECT_EQ(settings.at("count").max, 20);
  EXPECT_EQ(settings.at("kind").values.size(), 2U);
  EXPECT_EQ(settings.at("text").otherwise, "a");
}

}  // namespace
}  // namespace moonfence
