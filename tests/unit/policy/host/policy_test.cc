#include "policy/host/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/host/lua_self_test.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using policy::Policy;
using policy::Verdict;
using testing::HasSubstr;
using testing::StartsWith;

TEST(SelfTest, a_lua_error_runs_destructors) {
  const auto tested = policy::lua_self_test();
  EXPECT_TRUE(tested) << (tested ? "" : tested.error().message());
}

TEST(Load, a_whole_declaration_is_read) {
  StoppedCpuClock clock;
  const auto policy = Policy::load(R"(
    return policy {
      api = 1, name = "longhorn", version = "1.2.3-rc.1+b5", summary = "what it does", doc = "more",
      select = { labels = "app in (a, b),!canary" }, needs = {},
      trigger = { failures = 3, interval = "1m30s", sweep = false, deleted = true,
                  live_kubelet = true },
      pod = function() return fence.forbid("no") end,
    })",
                                   "policies/longhorn/policy.lua", clock);
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_EQ(policy->name(), "longhorn");
  EXPECT_EQ(policy->version(), "1.2.3-rc.1+b5");
  EXPECT_EQ(policy->summary(), "what it does");
  EXPECT_EQ(policy->label_selector(), "app in (a, b),!canary");
  EXPECT_TRUE(policy->selects({{"app", "a"}}));
  EXPECT_FALSE(policy->selects({{"app", "a"}, {"canary", ""}}));
  EXPECT_EQ(policy->trigger().failures, 3U);
  EXPECT_EQ(policy->trigger().interval, std::chrono::seconds(90));
  EXPECT_FALSE(policy->trigger().sweep);
  EXPECT_TRUE(policy->trigger().deleted);
  EXPECT_TRUE(policy->trigger().live_kubelet);
}

TEST(Load, without_a_trigger_the_first_observation_acts) {
  const auto policy = load_text(policy_text("return fence.skip('x')"));
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->trigger().failures, 1U);
  EXPECT_EQ(policy->trigger().interval, Duration::zero());
  EXPECT_TRUE(policy->trigger().sweep);
  EXPECT_FALSE(policy->trigger().deleted);
  EXPECT_FALSE(policy->trigger().live_kubelet);
  EXPECT_EQ(policy->label_selector(), "");
  EXPECT_TRUE(policy->selects({}));
}

TEST(Load, the_digest_is_that_of_the_source) {
  const std::string text = policy_text("return fence.skip('x')");
  const auto one = load_text(text);
  const auto other = load_text(text + " ");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->digest().size(), 64U);
  EXPECT_NE(one->digest(), other->digest());
  EXPECT_EQ(one->digest(), load_text(text)->digest());
}

TEST(Load, the_name_is_the_files) {
  StoppedCpuClock clock;
  const std::string text = policy_text("return fence.skip('x')");
  EXPECT_TRUE(Policy::load(text, "test.lua", clock));
  EXPECT_TRUE(Policy::load(text, "/etc/policies/test.lua", clock));
  EXPECT_TRUE(Policy::load(text, "test/policy.lua", clock));
  EXPECT_EQ(Policy::load(text, "other.lua", clock).error().text,
            "other.lua:1: name is 'test', but the file's name demands 'other'");
  for (const char* file : {"policy/../.lua", "Test.lua", "", "a b.lua", "../policy.lua"}) {
    EXPECT_THAT(Policy::load(text, file, clock).error().text, HasSubstr("cannot name a policy"));
  }
}

struct Refusal {
  const char* declaration;
  const char* says;
};

class RefusedDeclaration : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedDeclaration, says_where_and_why) {
  const std::string text = std::string("return policy {\n") + GetParam().declaration + " }";
  EXPECT_EQ(load_error(text), std::string("test.lua:1: ") + GetParam().says);
}

#define DECLARED(rest) "api=1, name='test', version='1.0.0', summary='s', " rest
#define WITH_POD(rest) DECLARED("pod=function() end, " rest)

INSTANTIATE_TEST_SUITE_P(
    Keys, RefusedDeclaration,
    testing::Values(
        Refusal{WITH_POD("tigger={}"),
                "policy has the unknown key 'tigger' (did you mean 'trigger'?)"},
        Refusal{WITH_POD("zz=1, yy=1"), "policy has the unknown key 'yy'"},
        Refusal{WITH_POD("1"), "policy has an integer as a key; its keys are names"},
        Refusal{WITH_POD("node=1"), "node must be a function, not an integer"},
        Refusal{WITH_POD("fetch=1"), "fetch must be a function, not an integer"},
        Refusal{WITH_POD("source=1"), "source must be a table, not an integer"},
        Refusal{WITH_POD("source={}"),
                "source.every is missing; it must be a duration, a text such as '30s'"},
        Refusal{WITH_POD("source={every='5s', expiry='1h', plan=function() end}"),
                "source.nodes is missing; it must be a function"},
        Refusal{WITH_POD("source={every='1ms'}"), "source.every must be from 1s to 1h"},
        Refusal{WITH_POD("source={every='5s', expiry='2s'}"),
                "source.expiry must be from 5s to 24h"},
        Refusal{WITH_POD("source={every='5s', expiry='25h'}"),
                "source.expiry must be from 5s to 24h"},
        Refusal{WITH_POD("source={interval='5s'}"), "source has the unknown key 'interval'"},
        Refusal{"api=2, name='test'", "api must be 1; this engine speaks 1"},
        Refusal{"name='test'", "api is missing; it must be 1"},
        Refusal{"api='1', name='test'", "api must be 1, not a text"},
        Refusal{"api=1, name='../x'",
                "name is '../x'; a name is [a-z][a-z0-9-]* of at most 40 letters"},
        Refusal{"api=1, name='other'", "name is 'other', but the file's name demands 'test'"},
        Refusal{"api=1, name=7", "policy.name must be a text, not an integer"},
        Refusal{"api=1, name='test', version='1.0'",
                "version is '1.0', which is no semantic version such as 1.0.0"},
        Refusal{"api=1, name='test', version='01.0.0'",
                "version is '01.0.0', which is no semantic version such as 1.0.0"},
        Refusal{"api=1, name='test', version='1.0.0'",
                "policy.summary is missing; it must be a text"},
        Refusal{"api=1, name='test', version='1.0.0', summary=''",
                "policy.summary must have 1 to 256 bytes, not 0"},
        Refusal{DECLARED(""), "pod is missing; it must be a function"},
        Refusal{DECLARED("pod='delete'"), "pod must be a function, not a text"},
        Refusal{WITH_POD("select='app=x'"), "select must be a table, not a text"},
        Refusal{WITH_POD("select={label='x'}"),
                "select has the unknown key 'label' (did you mean 'labels'?)"},
        Refusal{WITH_POD("select={fields='x'}"), "select has the unknown key 'fields'"},
        Refusal{WITH_POD("select={labels='a in ('}"),
                "select.labels cannot be used: 'a in (' is no label selector: a ')' is missing"},
        Refusal{WITH_POD("needs={'volume'}"),
                "needs[1] is the unknown need 'volume' (did you mean 'volumes'?)"},
        Refusal{WITH_POD("needs={'volumes', 'volume_health'}"),
                "needs[2] is 'volume_health', which is no need: health comes through fetch, as "
                "the answer of the storage's own API"},
        Refusal{WITH_POD("needs={volumes=true}"),
                "needs must be a plain list such as { 'volumes' }"},
        Refusal{WITH_POD("needs={1}"), "needs[1] must be a text, not an integer"},
        Refusal{WITH_POD("needs='volumes'"), "needs must be a table, not a text"},
        Refusal{WITH_POD("needs=3"), "needs must be a table, not an integer"}));

INSTANTIATE_TEST_SUITE_P(
    Trigger, RefusedDeclaration,
    testing::Values(
        Refusal{WITH_POD("trigger=3"), "trigger must be a table, not an integer"},
        Refusal{WITH_POD("trigger={failure=1}"),
                "trigger has the unknown key 'failure' (did you mean 'failures'?)"},
        Refusal{WITH_POD("trigger={failures=0}"),
                "trigger.failures must be an integer from 1 to 1000"},
        Refusal{WITH_POD("trigger={failures=1.5}"),
                "trigger.failures must be an integer from 1 to 1000"},
        Refusal{WITH_POD("trigger={failures=1e18}"),
                "trigger.failures must be an integer from 1 to 1000"},
        Refusal{WITH_POD("trigger={failures=2}"),
                "trigger.interval must be at least 1s when failures is more than 1"},
        Refusal{
            WITH_POD("trigger={interval='5'}"),
            "trigger.interval is '5', which is no duration; write a number with a unit, such as "
            "30s"},
        Refusal{WITH_POD("trigger={interval=1e18}"),
                "trigger.interval must be a number of seconds from 0 to 1000000000"},
        Refusal{WITH_POD("trigger={interval='25h'}"),
                "trigger.interval must not be longer than 24h"},
        Refusal{WITH_POD("trigger={sweep='yes'}"),
                "trigger.sweep must be true or false, not a text"}));

TEST(Load, a_trigger_may_be_a_function_of_the_settings) {
  const std::string settings =
      "settings = { n = { type = 'integer', default = 4 }, "
      "every = { type = 'duration', default = '90s' } }, ";
  const auto policy = load_text(policy_text(
      "return fence.skip('x')",
      settings + "trigger = function(s) return { failures = s.n, interval = s.every } end,"));
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_EQ(policy->trigger().failures, 4U);
  EXPECT_EQ(policy->trigger().interval, std::chrono::seconds(90));

  const auto error = [&](const std::string& body) {
    return load_error(policy_text("return fence.skip('x')",
                                  settings + "trigger = function(s) " + body + " end,"));
  };
  EXPECT_EQ(error(""), "test.lua:1: trigger returned nil; it must return a table");
  EXPECT_THAT(error("return { failures = 0 }"), HasSubstr("must be an integer from 1 to 1000"));
  EXPECT_THAT(error("return { failures = s.nn }"), HasSubstr("unknown setting 'nn' of settings"));
  EXPECT_THAT(error("while true do end"), HasSubstr("instruction limit"));
  EXPECT_THAT(error("return fence.skip('x')"), HasSubstr("make it inside of pod()"));
}

TEST(Load, the_file_returns_what_policy_returned) {
  const std::string declared =
      "policy { api=1, name='test', version='1.0.0', summary='s', pod=function() end }";
  EXPECT_EQ(load_error("local p = " + declared + " return p"), "");
  EXPECT_EQ(load_error(declared),
            "test.lua: the file returned nothing; it must end with return policy{ ... }");
  EXPECT_EQ(load_error("return {}"),
            "test.lua: the file returned a table; it must end with return policy{ ... }");
  EXPECT_EQ(load_error(declared + " return true"),
            "test.lua: the file returned a boolean; it must end with return policy{ ... }");
  EXPECT_THAT(load_error("local p = " + declared + " return " + declared),
              HasSubstr("policy: called twice"));
  EXPECT_THAT(load_error("return policy(7)"), HasSubstr("argument 1 must be a table"));
}

TEST(Load, text_that_does_not_compile_is_refused_with_its_line) {
  EXPECT_THAT(load_error("\n\nreturn policy {"), StartsWith("test.lua:3: "));
  EXPECT_THAT(load_error("\x1bLua"), HasSubstr("attempt to load a binary chunk"));
  EXPECT_THAT(load_error("\xef\xbb\xbfreturn 1"), StartsWith("test.lua:1: "));
  EXPECT_THAT(load_error("#!/usr/bin/lua\nreturn 1"), StartsWith("test.lua:1: "));
}

TEST(Load, a_source_that_is_too_long_is_refused_with_both_figures) {
  const auto policy = load_text(std::string(65U << 10U, ' '));
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().kind, Error::Kind::Limit);
  EXPECT_EQ(policy.error().text, "test.lua: the source has 66560 of 65536 bytes");
}

TEST(Load, a_compilation_that_takes_long_is_refused) {
  TickingCpuClock clock(std::chrono::milliseconds(21));
  const auto policy = Policy::load(policy_text("return fence.skip('x')"), "test.lua", clock);
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().kind, Error::Kind::Limit);
  EXPECT_EQ(policy.error().text, "test.lua: compiling took 21ms of 20ms CPU time");
}

TEST(Decide, each_verdict_arrives) {
  const auto verdict = [](const std::string& body) { return evaluate_body(body).verdict.value(); };
  EXPECT_EQ(verdict("return fence.skip('a')").kind, Verdict::Kind::Skip);
  EXPECT_EQ(verdict("return fence.forbid('a')").kind, Verdict::Kind::Forbid);
  EXPECT_EQ(verdict("return fence.delete_pod('a')").kind, Verdict::Kind::DeletePod);
  EXPECT_EQ(verdict("return fence.delete_pod('a')").reason, "a");
  const Verdict wait = verdict("return fence.wait('a', 2.5)");
  EXPECT_EQ(wait.kind, Verdict::Kind::Wait);
  EXPECT_EQ(wait.wait, std::chrono::milliseconds(2500));
}

TEST(Decide, an_upvalue_starts_anew_every_time) {
  const auto policy =
      load_text("local n = 0 local kept\n" +
                policy_text("n = n + 1 local old = kept kept = pod\n"
                            "return fence.skip(tostring(n) .. ' ' .. tostring(old))"));
  ASSERT_TRUE(policy) << policy.error().text;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(
        policy->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster())->reason,
        "1 nil");
  }
}

TEST(Decide, five_states_reach_the_same_verdict) {
  const auto policy = load_text(policy_text(R"(
    local t, names = {}, {}
    for k, v in pairs(pod.labels) do t[k] = v; table.insert(names, k) end
    return fence.skip(table.concat(names, ",") .. " " .. table.concat(table.keys(t), ",")))"));
  ASSERT_TRUE(policy) << policy.error().text;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(
        policy->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster())->reason,
        "app,tier,zone app,tier,zone");
  }
}

TEST(Decide, a_pod_without_its_json_is_refused) {
  const auto policy = load_text(policy_text("return fence.skip('x')"));
  EXPECT_THAT(policy->decide({}, {}, {}).error().text, HasSubstr("read without its JSON"));
}

TEST(Decide, an_error_names_file_and_line) {
  const auto result = evaluate_body("\nlocal x = nil\nreturn x.y").verdict;
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::Invalid);
  EXPECT_THAT(result.error().text, StartsWith("test.lua:4: attempt to index a nil value"));
}

// A decision runs what was compiled at load, and that is not stripped.
TEST(Decide, an_error_names_what_the_text_calls_it) {
  EXPECT_EQ(outcome("local volumes = nil\nreturn volumes.first"),
            "test.lua:3: attempt to index a nil value (local 'volumes')");
  EXPECT_EQ(outcome("local t = {}\nlocal f = function()\n  return t.a.b\nend\nreturn f()"),
            "test.lua:4: attempt to index a nil value (field 'a')");
  const std::string head = "local outer = nil\n";
  const auto policy = load_text(head + policy_text("return outer.x"));
  ASSERT_TRUE(policy) << policy.error().text;
  const auto verdict = policy->decide(pod_of(sample_pod()), node_of(sample_node()), {});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().text, "test.lua:3: attempt to index a nil value (upvalue 'outer')");
}

TEST(Decide, an_error_value_may_be_anything) {
  EXPECT_EQ(outcome("error(nil)"),
            "test.lua: the script raised a nil value as its error; raise a text");
  EXPECT_EQ(outcome("error({})"),
            "test.lua: the script raised a table value as its error; raise a text");
  EXPECT_EQ(outcome("error(7)"),
            "test.lua: the script raised a number value as its error; raise a text");
  EXPECT_EQ(outcome("error('a\\27[31mb')"), "test.lua:2: a\\x1b[31mb");
  const std::string text = outcome("local s = 'x' for i = 1, 19 do s = s .. s end error(s)");
  EXPECT_LE(text.size(), 1024U + 16U);
}

TEST(Decide, settings_hold_their_defaults) {
  const std::string settings =
      "settings = { a = { type = 'string', default = 'x' }, "
      "l = { type = 'list', of = 'string', default = { 'p', 'q' } } }, ";
  EXPECT_EQ(outcome("return fence.skip(s.a .. #s.l .. s.l[2])", settings), "skip: x2q");
  EXPECT_EQ(outcome("return fence.skip(s.b)", settings),
            "test.lua:2: unknown setting 'b' of settings (did you mean 'a'?)");
  EXPECT_THAT(outcome("s.a = 'y'", settings), HasSubstr("cannot set 'a' of settings"));
}

TEST(Decide, what_it_costs_is_reported) {
  const auto evaluation = evaluate_body("return fence.skip('x')");
  EXPECT_GT(evaluation.usage.instructions, 0U);
  EXPECT_LT(evaluation.usage.instructions, 5'000U);
  EXPECT_GT(evaluation.usage.memory_bytes, 1'000U);
  EXPECT_LT(evaluation.usage.memory_bytes, 64U << 10U);
}

}  // namespace
}  // namespace moonfence
