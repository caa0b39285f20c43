#include "policy/cases/test_run.h"

#include <gtest/gtest.h>

#include "policy/kit/auto_cases.h"
#include "policy/kit/test_report.h"
#include "support/fake_files.h"
#include "support/policies.h"

namespace moonfence::policy {
namespace {

constexpr const char* kPod = R"({ kind = "Pod",
  metadata = { name = "web-0", namespace = "shop", uid = "u", labels = { app = "web" } },
  spec = { nodeName = "n1", volumes = { { name = "data", persistentVolumeClaim = { claimName = "c" } } } } })";

// A policy and a file of cases, run.
struct Bench {
  StoppedCpuClock clock;
  test::FakeFiles files;
  FileResult result;

  // `cases` stand in tests{ objects = a pod, ... }.
  Bench(const std::string& policy, const std::string& cases, bool automatic = false) {
    const auto subject = load_subject(policy, "test.lua", clock);
    EXPECT_TRUE(subject) << (subject ? "" : subject.error().text);
    const auto tests =
        read_test_file(std::string("return tests { objects = ") + kPod + ", " + cases + " }",
                       "test_test.lua", files, clock);
    EXPECT_TRUE(tests) << (tests ? "" : tests.error().text);
    if (!subject || !tests) {
      return;
    }
    result.test_file = "test_test.lua";
    result.policy_file = "test.lua";
    result.coverage.all = subject->map;
    for (const TestCase& one : tests->cases) {
      result.cases.push_back(run_case(*subject, one, result.coverage));
    }
    if (automatic) {
      for (CaseResult& made : run_auto_cases(*subject, tests->cases)) {
        result.cases.push_back(std::move(made));
      }
    }
  }

  // Of the first case: "passed", or its problems.
  [[nodiscard]] std::string first() const {
    if (result.cases.empty()) {
      return "nothing";
    }
    const CaseResult& one = result.cases.front();
    switch (one.state) {
      case CaseResult::State::Passed:
        return "passed";
      case CaseResult::State::Malformed:
        return "malformed: " + joined(one);
      case CaseResult::State::Failed:
        return joined(one);
    }
    return "";
  }
  static std::string joined(const CaseResult& one) {
    std::string text;
    for (const std::string& problem : one.problems) {
      text += problem + "\n";
    }
    return text;
  }
};

std::string one_case(const std::string& keys) {
  return "case { name = 'a', " + keys + " }";
}

std::string first(const std::string& body, const std::string& keys, const std::string& more = "") {
  return Bench(policy_text(body, more), one_case(keys)).first();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kStorage = R"(objects = { )"
                                 R"({ kind = "Pod", metadata = { name = "web-0",
  namespace = "shop", uid = "u" }, spec = { nodeName = "n1", volumes = { { name = "data",
  persistentVolumeClaim = { claimName = "c" } } } } },
  { kind = "PersistentVolumeClaim", metadata = { name = "c", namespace = "shop" }, spec = { volumeName = "pv" } },
  { kind = "PersistentVolume", metadata = { name = "pv" }, spec = { csi = { driver = "d", volumeHandle = "h" } } } })";

TEST(TestRun, what_is_expected_passes) {
  EXPECT_EQ(first("return fence.skip('because')", "expect = { verdict = 'skip' }"), "passed");
  EXPECT_EQ(
      first("return fence.skip('because')", "expect = { verdict = 'skip', reason = '~caus' }"),
      "passed");
  EXPECT_EQ(first("return fence.wait('soon', 30)", "expect = { verdict = 'wait', seconds = 30 }"),
            "passed");
  EXPECT_EQ(first("return pod.nothing", "expect = { outcome = 'error', message = 'nothing' }"),
            "passed");
}

TEST(TestRun, what_differs_is_told_with_its_place) {
  EXPECT_EQ(
      first("\n\nreturn fence.delete_pod('late')", "expect = { verdict = 'wait', seconds = 30 }"),
      "verdict: want wait (30s), got delete_pod\nreason:  late\nat test.lua:4\n");
  EXPECT_EQ(first("return fence.wait('soon', 20)", "expect = { verdict = 'wait', seconds = 30 }"),
            "verdict: want wait (30s), got wait (20s)\nreason:  soon\nat test.lua:2\n");
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { verdict = 'skip', reason = 'b' }"),
                  "reason:  want b\n         got  a\n"));
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { verdict = 'skip', reason = '~b' }"),
                  "reason:  want ~b"));
  EXPECT_TRUE(
      has(first("return fence.skip('a')", "expect = { verdict = 'skip', reads = { 'pod.name' } }"),
          "reads:   want pod.name, which the policy did not look at"));
  EXPECT_TRUE(has(first("return pod.lables", "expect = { verdict = 'skip' }"),
                  "got error: test.lua:2: unknown field 'lables'"));
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { outcome = 'error' }"),
                  "want error, got skip"));
}

// A rule that matches nothing must not look as if it had been tested.
TEST(TestRun, a_pod_that_is_not_selected_fails_what_expects_a_verdict) {
  const std::string more = "select = { labels = 'app=other' },";
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { verdict = 'skip' }", more),
                  "want skip, got not_selected\nrule:    the policy selects app=other"));
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { outcome = 'error' }", more),
                  "got not_selected"));
  EXPECT_EQ(first("return fence.skip('a')", "expect = { outcome = 'not_selected' }", more),
            "passed");
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { outcome = 'not_selected' }"),
                  "want not_selected, got skip"));
}

TEST(TestRun, a_need_that_fails_defers) {
  const std::string more = "needs = { 'volumes' },";
  EXPECT_EQ(first("return fence.skip('a')",
                  "fail = { 'volumes' }, expect = { outcome = 'deferred' }", more),
            "passed");
  EXPECT_TRUE(has(
      first("return fence.skip('a')", "fail = { 'volumes' }, expect = { verdict = 'skip' }", more),
      "want skip, got deferred"));
  EXPECT_TRUE(has(first("return fence.skip('a')",
                        "fail = { 'placement' }, expect = { outcome = 'deferred' }", more),
                  "malformed: fail: test.lua does not declare 'placement'"));
  EXPECT_TRUE(has(first("return fence.skip('a')",
                        "fail = { 'volume' }, expect = { outcome = 'deferred' }", more),
                  "did you mean 'volumes'?"));
}

TEST(TestRun, a_need_without_data_fails_the_case) {
  EXPECT_TRUE(has(
      first("return fence.skip('a')", "expect = { verdict = 'skip' }", "needs = { 'volumes' },"),
      "the policy needs 'volumes': the pod has claims, but there is no"));
  EXPECT_EQ(first("return fence.skip('a')", "expect = { verdict = 'skip' }"), "passed");
}

TEST(TestRun, volumes_of_a_verdict_are_compared_by_claim) {
  const std::string body = "return fence.delete_pod_and_attachments('gone', pod.volumes)";
  const std::string more = "needs = { 'volumes' },";
  const std::string objects = std::string(kStorage) + ", ";
  EXPECT_EQ(
      first(body,
            objects + "expect = { verdict = 'delete_pod_and_attachments', volumes = { 'c' } }",
            more),
      "passed");
  EXPECT_TRUE(
      has(first(body,
                objects + "expect = { verdict = 'delete_pod_and_attachments', volumes = { 'x' } }",
                more),
          "volumes: want x, got c"));
  EXPECT_EQ(
      first("for _, v in ipairs(pod.claims) do return fence.skip(v.state) end",
            objects + "patch = { ['pod.claims[1].state'] = 'claim_missing' }, expect = { verdict = "
                      "'skip', reason = 'claim_missing', reads = { 'pod.claims[1].state' } }",
            more),
      "passed");
}

TEST(TestRun, options_of_a_verdict_are_compared) {
  const std::string more = "needs = { 'volumes' },";
  const auto told = [&more](const std::string& body, const std::string& expect) {
    return first(body, std::string(kStorage) + ", expect = { " + expect + " }", more);
  };
  const std::string both = "return fence.delete_pod_and_attachments('gone', { release = true })";
  EXPECT_EQ(told(both, "verdict = 'delete_pod_and_attachments', release = true"), "passed");
  EXPECT_TRUE(has(told(both, "verdict = 'delete_pod_and_attachments', release = false"),
                  "release: want none, got release"));
  EXPECT_TRUE(has(told("return fence.delete_pod_and_attachments('gone')",
                       "verdict = 'delete_pod_and_attachments', release = true"),
                  "release: want release, got none"));
  const std::string before =
      "return fence.delete_attachments('stuck', pod.volumes, { wait = 90, on_timeout = 'delete' })";
  EXPECT_EQ(told(before, "verdict = 'delete_attachments', seconds = 90, on_timeout = 'delete'"),
            "passed");
  EXPECT_TRUE(has(told(before, "verdict = 'delete_attachments', seconds = 60"), "got delete_att"));
  const std::string proves = "return fence.delete_pod('off', { proof = { 'silent', 'attested' } })";
  EXPECT_EQ(told(proves, "verdict = 'delete_pod', proof = { 'attested', 'silent' }"), "passed");
  EXPECT_TRUE(has(told(proves, "verdict = 'delete_pod', proof = { 'attested' }"),
                  "proof:   want attested, got silent, attested"));
  EXPECT_TRUE(has(told(proves, "verdict = 'delete_pod', proof = {}"), "want none, got silent"));
  EXPECT_TRUE(has(told(before, "verdict = 'delete_attachments', on_timeout = 'hold'"),
                  "on_timeout: want hold, got delete"));
}

TEST(TestRun, needs_follow_the_settings_of_the_case) {
  const std::string more =
      "settings = { deep = { type = 'boolean', default = false } }, "
      "needs = function(s) return s.deep and { 'volumes' } or {} end,";
  const std::string body = "return fence.skip(s.deep and pod.claims[1].state or 'shallow')";
  EXPECT_EQ(first(body, "expect = { verdict = 'skip', reason = 'shallow' }", more), "passed");
  EXPECT_TRUE(has(first(body, "settings = { deep = true }, expect = { verdict = 'skip' }", more),
                  "the policy needs 'volumes'"));
  EXPECT_EQ(first(body,
                  "settings = { deep = true }, fail = { 'volumes' }, expect = { outcome = "
                  "'deferred' }",
                  more),
            "passed");
  EXPECT_TRUE(has(first(body, "fail = { 'volumes' }, expect = { outcome = 'deferred' }", more),
                  "does not declare 'volumes'"));
}

TEST(TestRun, settings_are_checked_and_seen) {
  const std::string more = "settings = { n = { type = 'integer', default = 1, max = 9 } },";
  EXPECT_EQ(first("return fence.skip('n' .. s.n)",
                  "settings = { n = 7 }, expect = { verdict = 'skip', reason = 'n7' }", more),
            "passed");
  EXPECT_TRUE(has(
      first("return fence.skip('a')", "settings = { n = 99 }, expect = { verdict = 'skip' }", more),
      "malformed: "));
  EXPECT_TRUE(has(
      first("return fence.skip('a')", "settings = { m = 1 }, expect = { verdict = 'skip' }", more),
      "malformed: "));
}

TEST(TestRun, a_bad_patch_is_malformed) {
  EXPECT_TRUE(has(first("return fence.skip('a')",
                        "patch = { ['pod.nam'] = 'x' }, expect = { verdict = 'skip' }"),
                  "malformed: patch pod.nam: unknown field 'nam' of pod (did you mean 'name'?)"));
}

TEST(TestRun, a_key_of_a_map_is_patched_as_a_policy_writes_it) {
  EXPECT_EQ(
      first("return fence.skip(pod.labels['a.b/c'] .. pod.annotations['d/e'])",
            "patch = { ['pod.labels[\"a.b/c\"]'] = 'x', ['pod.annotations[\"d/e\"]'] = 'y' }, "
            "expect = { verdict = 'skip', reason = 'xy' }"),
      "passed");
}

TEST(TestRun, a_clock_nobody_set_decides_nothing) {
  const std::string body = "if cluster.now > 0 then end return fence.skip('a')";
  EXPECT_TRUE(has(first(body, "expect = { verdict = 'skip' }"), "give the case now = '...'"));
  EXPECT_EQ(first(body, "now = 100, expect = { verdict = 'skip' }"), "passed");
}

// Lua walks a table in an order that differs from state to state.
TEST(TestRun, a_policy_that_depends_on_order_fails) {
  std::string body =
      "local names = {} for i = 1, 40 do names['name' .. i] = i end\n"
      "local all = '' for name in pairs(names) do all = all .. name end\n"
      "return fence.skip(all)";
  EXPECT_TRUE(has(first(body, "expect = { verdict = 'skip' }"), "order:   one state said skip"));
}

TEST(TestRun, a_node_function_is_asked_by_its_verdicts) {
  const std::string more =
      "node = function(node, s, cluster) if node.ready_status == 'deleted' then return "
      "fence.hold('gone', 60) end return fence.proceed('ok') end,";
  EXPECT_EQ(first("return fence.skip('a')", "expect = { verdict = 'proceed' }", more), "passed");
  EXPECT_EQ(first("return fence.skip('a')",
                  "patch = { ['node.ready_status'] = 'deleted' }, expect = { verdict = 'hold', "
                  "seconds = 60, reason = 'gone' }",
                  more),
            "passed");
  EXPECT_TRUE(has(first("return fence.skip('a')", "expect = { verdict = 'proceed' }"),
                  "malformed: the policy has no node function"));
}

TEST(TestRun, hold_is_expected_of_the_pod_where_the_node_says_nothing_like_it) {
  const std::string expect = "expect = { verdict = 'hold', seconds = 7, reason = 'mine' }";
  EXPECT_EQ(first("return fence.hold('mine', 7)", expect), "passed");
  EXPECT_EQ(first("return fence.hold('mine', 7)", expect,
                  "node = function() return fence.proceed('ok') end,"),
            "passed");
  EXPECT_EQ(first("return fence.skip('x')", expect,
                  "node = function() return fence.hold('mine', 7) end,"),
            "passed");
}

TEST(TestRun, fetch_is_answered_by_responses) {
  const std::string more =
      "fetch = function(pod, s, got) if got.v then return nil end return { v = "
      "fence.http('vendor', '/v/' .. pod.name) } end,";
  const std::string body = "return fence.skip('state ' .. pod.fetched.v.body.state)";
  const auto with = [&](const std::string& response, const std::string& expect) {
    return first(
        body,
        "responses = { ['http vendor /v/web-0'] = " + response + " }, expect = { " + expect + " }",
        more);
  };
  EXPECT_EQ(
      with("{ status = 200, body = { state = 'up' } }", "verdict = 'skip', reason = 'state up'"),
      "passed");
  EXPECT_EQ(with("{ status = 503 }", "outcome = 'deferred'"), "passed");
  EXPECT_EQ(with("{ status = 404 }", "outcome = 'error'"), "passed");
  EXPECT_TRUE(has(with("{ body = {} }", "verdict = 'skip'"), "has no status"));
  EXPECT_TRUE(has(first(body, "expect = { verdict = 'skip' }", more),
                  "malformed: the policy asks for 'http vendor /v/web-0', which has no response"));
  EXPECT_TRUE(has(first("return fence.skip('a')",
                        "responses = { x = { status = 200 } }, expect = { verdict = 'skip' }"),
                  "has neither fetch, node_fetch nor source"));
  EXPECT_EQ(first(body, "fail = { 'fetch' }, expect = { outcome = 'deferred' }", more), "passed");
}

TEST(TestRun, node_fetch_is_answered_by_responses) {
  const std::string more =
      "node_fetch = function(node, s, got) if got.all then return nil end return { all = "
      "fence.list('example.com/v1', 'racks', '', { metadata = true }) } end, "
      "node = function(node) local n = #node.fetched.all.body.items if n > 1 then "
      "return fence.hold('racks: ' .. n, 7) end return fence.proceed('one rack') end,";
  const auto with = [&more](const std::string& response, const std::string& expect) {
    return first("return fence.skip('a')",
                 "responses = { ['list-metadata example.com/v1 racks'] = " + response +
                     " }, expect = { " + expect + " }",
                 more);
  };
  EXPECT_EQ(with("{ status = 200, body = { items = { { metadata = {} } } } }",
                 "verdict = 'proceed', reason = 'one rack'"),
            "passed");
  EXPECT_EQ(with("{ status = 200, body = { items = { { metadata = {} }, { metadata = {} } } } }",
                 "verdict = 'hold', reason = 'racks: 2', seconds = 7"),
            "passed");
  EXPECT_EQ(with("{ status = 503 }", "outcome = 'deferred'"), "passed");
  EXPECT_EQ(with("{ status = 200, body = { items = { { metadata = {}, spec = {} } } } }",
                 "outcome = 'deferred'"),
            "passed");
  EXPECT_EQ(with("{ status = 200, body = { metadata = { continue = 'more' }, items = {} } }",
                 "outcome = 'deferred'"),
            "passed");
}

TEST(TestRun, a_request_that_fails_is_deferred_but_for_one_of_try) {
  const auto with = [](const std::string& request, const std::string& response,
                       const std::string& expect) {
    return first(
        "if pod.fetched.v.error then return fence.forbid(pod.fetched.v.error .. ' for ' .. "
        "pod.fetched.v.since .. ' s') end return fence.skip('well')",
        "responses = { ['http v /x'] = " + response + " }, expect = { " + expect + " }",
        "fetch = function(pod, s, got) if not got.v then return { v = " + request + " } end end,");
  };
  const std::string tries = "fence.try(fence.http('v', '/x'))";
  EXPECT_EQ(with(tries, "{ error = 'timeout', since = 300 }",
                 "verdict = 'forbid', reason = 'timeout for 300 s'"),
            "passed");
  EXPECT_EQ(with(tries, "{ status = 503 }", "verdict = 'forbid', reason = 'status for 0 s'"),
            "passed");
  EXPECT_EQ(with(tries, "{ status = 0, since = 7 }",
                 "verdict = 'forbid', reason = 'unreachable for 7 s'"),
            "passed");
  EXPECT_EQ(with(tries, "{ status = 200, body = {} }", "verdict = 'skip'"), "passed");
  EXPECT_EQ(with("fence.http('v', '/x')", "{ error = 'timeout' }", "outcome = 'deferred'"),
            "passed");
  // As the engine has it: nothing but 2xx and 404 is an answer.
  EXPECT_EQ(with("fence.http('v', '/x')", "{ status = 302 }", "outcome = 'deferred'"), "passed");
  EXPECT_TRUE(has(with(tries, "{ error = 'timeuot' }", "verdict = 'skip'"),
                  "unknown error 'timeuot' (did you mean 'timeout'?)"));
  EXPECT_TRUE(has(with(tries, "{ error = 'timeout', body = {} }", "verdict = 'skip'"), "no body"));
}

TEST(TestRun, a_fetch_that_never_has_enough_is_deferred) {
  EXPECT_EQ(
      first("return fence.skip('a')",
            "responses = { ['http v /x'] = { status = 200 } }, expect = { outcome = 'deferred' }",
            "fetch = function(pod, s, got) return { ['x' .. #table.keys(got)] = "
            "fence.http('v', '/x') } end,"),
      "passed");
}

TEST(TestRun, a_fetch_that_has_enough_after_four_rounds_is_served) {  // as the engine serves it
  EXPECT_EQ(first("return fence.skip('a')",
                  "responses = { ['http v /x'] = { status = 200 } }, expect = { verdict = 'skip' }",
                  "fetch = function(pod, s, got) local n = #table.keys(got) if n < 4 then return { "
                  "['x' .. n] = fence.http('v', '/x') } end end,"),
            "passed");
}

TEST(TestRun, a_source_is_asked_for_nodes) {
  const std::string more =
      "source = { every = '5s', expiry = '1h', plan = function(s, got) if not got.n then return { "
      "n "
      "= fence.http('v', '/nodes') } end end, nodes = function(s, got) return { [got.n.body.name] "
      "= "
      "'failed' } end },";
  const std::string responses =
      "responses = { ['http v /nodes'] = { status = 200, body = { name = 'n1' } } }, ";
  EXPECT_EQ(
      first("return fence.skip('a')", responses + "expect = { nodes = { n1 = 'failed' } }", more),
      "passed");
  EXPECT_TRUE(has(
      first("return fence.skip('a')", responses + "expect = { nodes = { n2 = 'failed' } }", more),
      "want nodes n2=failed, got nodes n1=failed"));
}

TEST(AutoCases, a_robust_policy_passes_all_of_them) {
  const Bench bench(
      policy_text("if pod.owner.kind == 'Job' then return fence.skip('job') end\n"
                  "return fence.delete_pod('gone')"),
      "case { name = 'a', patch = { ['pod.owner.kind'] = 'Job' }, expect = { verdict = 'skip' } }, "
      "case { name = 'b', patch = { ['pod.owner'] = false, ['pod.labels'] = {} }, expect = { "
      "verdict "
      "= 'delete_pod' } }",
      true);
  std::size_t made = 0;
  for (const CaseResult& one : bench.result.cases) {
    made += one.automatic ? 1U : 0U;
  }
  EXPECT_GE(made, 10U);
  // Without its owner a Job's pod would be deleted; the tool says so, because nobody wrote it down.
  EXPECT_EQ(totals_of({bench.result}).failed, 2U) << text_report({bench.result}, false);
  EXPECT_TRUE(has(text_report({bench.result}, false), "a / pod without metadata.ownerReferences"));
}

TEST(AutoCases, what_is_absent_must_not_fail_a_policy) {
  const Bench bench(
      policy_text("return fence.skip('phase ' .. pod.phase .. pod.labels['app'])"),
      one_case("patch = { ['pod.phase'] = 'Running' }, expect = { verdict = 'skip' }"), true);
  const std::string text = text_report({bench.result}, false);
  EXPECT_TRUE(has(text, "a / pod without labels.app")) << text;
  EXPECT_TRUE(has(text, "what may be missing must not fail a policy"));
  EXPECT_FALSE(has(text, "pod without status.phase"));
}

TEST(AutoCases, an_enum_may_act_where_a_case_expects_it) {
  const std::string policy = policy_text(
      "if s.mode == 'go' then return fence.delete_pod('gone') end return fence.skip('no')",
      "settings = { mode = { type = 'enum', values = { 'stay', 'go' }, default = 'stay' } },");
  const std::string stay = "case { name = 'stay', expect = { verdict = 'skip' } }";
  EXPECT_EQ(totals_of({Bench(policy, stay, true).result}).failed, 1U);
  EXPECT_EQ(totals_of({Bench(policy,
                             stay + ", case { name = 'go', settings = { mode = 'go' }, expect = { "
                                    "verdict = 'delete_pod' } }",
                             true)
                           .result})
                .failed,
            0U);
}

// The deadline itself: `>` for `>=` shows.
TEST(AutoCases, the_clock_stands_around_the_deadline) {
  const Bench bench(
      policy_text("if pod.deletion_timestamp and cluster.now == pod.deletion_timestamp then\n"
                  "  return fence.delete_pod('now') end\nreturn fence.skip('no')"),
      one_case(
          "patch = { ['pod.deletion_timestamp'] = 1000 }, now = 10, expect = { verdict = 'skip' }"),
      true);
  const std::string text = text_report({bench.result}, false);
  EXPECT_TRUE(has(text, "a / now at the deletion deadline 0s")) << text;
  EXPECT_EQ(totals_of({bench.result}).failed, 1U) << text;
}

FileResult sample_result() {
  FileResult file{.test_file = "x_test.lua", .policy_file = "x.lua"};
  file.cases.push_back(
      {.name = "good", .line = 3, .outcome = "skip", .usage = Usage{.instructions = 212}});
  file.cases.push_back({.name = "<bad & \"worse\">",
                        .line = 9,
                        .state = CaseResult::State::Failed,
                        .problems = {"verdict: want skip, got wait (10s)", "\x1b[31m"},
                        .outcome = "wait (10s)",
                        .reads = {{.path = "pod.name", .value = "\"a\""}}});
  return file;
}

TEST(TestReport, the_last_line_of_the_text_is_the_count_alone) {
  EXPECT_EQ(text_report({sample_result()}, true),
            "x_test.lua\n"
            "  ok    good                                      0 us    212 instr\n"
            "  FAIL  <bad & \"worse\"> (line 9)\n"
            "        verdict: want skip, got wait (10s)\n"
            "        \x1b[31m\n"
            "        read: pod.name=\"a\"\n"
            "x.lua  coverage: lines 0/0, verdicts 0/0\n"
            "1 passed, 1 failed\n");
}

TEST(TestReport, junit_is_escaped) {
  const std::string xml = junit_report({sample_result()});
  EXPECT_TRUE(has(xml, "<testsuites tests=\"2\" failures=\"1\">"));
  EXPECT_TRUE(has(xml, "name=\"&lt;bad &amp; \\&quot;worse\\&quot;&gt;\"")) << xml;
  EXPECT_FALSE(has(xml, "\x1b"));
}

TEST(TestReport, junit_has_a_test_for_the_coverage_that_is_asked_for) {
  FileResult file = sample_result();
  EXPECT_FALSE(has(junit_report({file}), "coverage"));
  EXPECT_TRUE(has(junit_report({file}, 100), "<testsuites tests=\"3\" failures=\"1\">"));
  file.coverage.all.lines = {1};
  const std::string xml = junit_report({file}, 100);
  EXPECT_TRUE(has(xml, "<testsuites tests=\"3\" failures=\"2\">")) << xml;
  EXPECT_TRUE(has(xml, "lines 0/1 (not run: 1)"));
}

TEST(TestReport, json_has_stable_keys) {
  const auto report = nlohmann::json::parse(json_report({sample_result()}));
  EXPECT_EQ(report["passed"], 1);
  EXPECT_EQ(report["failed"], 1);
  const auto& one = report["files"][0]["cases"][0];
  EXPECT_EQ(one["name"], "good");
  EXPECT_EQ(one["state"], "passed");
  EXPECT_EQ(one["instructions"], 212);
  EXPECT_EQ(report["files"][0]["cases"][1]["problems"][0], "verdict: want skip, got wait (10s)");
  EXPECT_TRUE(report["files"][0].contains("coverage"));
}

TEST(TestReport, a_file_that_does_not_load_counts_as_failed) {
  FileResult file{.test_file = "x_test.lua", .policy_file = "x.lua"};
  file.broken = "x.lua: no such file";
  EXPECT_EQ(totals_of({file}).failed, 1U);
  EXPECT_TRUE(has(text_report({file}, true), "0 passed, 1 failed\n"));
  EXPECT_TRUE(has(junit_report({file}), "no such file"));
}

}  // namespace
}  // namespace moonfence::policy
