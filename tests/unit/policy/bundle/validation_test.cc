#include "policy/bundle/validation.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Candidate candidate(const std::string& body, const std::string& more = "") {
  return {.name = "test", .source = policy_text(body, more)};
}

struct ValidationTest : testing::Test {
  StoppedCpuClock stopped;
  ValidationRules rules;
  int steps = 0;

  Validation::Outcome run(Candidate given, port::CpuClock& clock) {
    Validation validation(std::move(given), rules, clock);
    for (steps = 0; !validation.outcome(); ++steps) {
      if (steps > 100) {
        return Rejection{.stage = "endless", .message = {}};
      }
      validation.step();
    }
    return *validation.outcome();
  }
  Validation::Outcome run(Candidate given) { return run(std::move(given), stopped); }
  Rejection rejected(Candidate given) {
    auto outcome = run(std::move(given));
    const auto* rejection = std::get_if<Rejection>(&outcome);
    return rejection != nullptr ? *rejection : Rejection{.stage = "accepted", .message = {}};
  }
};

TEST_F(ValidationTest, a_good_policy_takes_one_slice_for_each_pod_and_compilation) {
  const auto outcome = run(candidate("return fence.delete_pod('gone')"));
  const auto* accepted = std::get_if<Accepted>(&outcome);
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->policy->name(), "test");
  EXPECT_THAT(accepted->warnings, IsEmpty());
  EXPECT_EQ(steps, 2 + static_cast<int>(smoke_cases().size()));
}

TEST_F(ValidationTest, each_stage_can_reject) {
  EXPECT_EQ(rejected({.name = "test", .source = std::string(65U << 10U, ' ')}).stage, "source");
  EXPECT_THAT(rejected({.name = "test", .source = std::string(65U << 10U, ' ')}).message,
              HasSubstr("test.lua has 66560 of 65536 bytes"));
  EXPECT_THAT(rejected({.name = "test", .source = "-- \xff\n"}).message,
              HasSubstr("test.lua is not UTF-8"));
  const Rejection syntax = rejected({.name = "test", .source = "\n\nreturn policy {\n"});
  EXPECT_EQ(syntax.stage, "load");
  EXPECT_EQ(syntax.line, 4);
  EXPECT_FALSE(syntax.may_be_guard);
  EXPECT_FALSE(syntax.may_differ);
  const Rejection budget = rejected({.name = "test", .source = "while true do end"});
  EXPECT_EQ(budget.stage, "load");
  EXPECT_TRUE(budget.may_differ);
}

TEST_F(ValidationTest, a_policy_that_cannot_judge_some_pod_is_rejected) {
  const Rejection ownerless = rejected(
      candidate("if pod.owner.kind == '' and pod.labels.app == 'smoke' then error('x') end\n"
                "return fence.skip('y')"));
  EXPECT_EQ(ownerless.stage, "smoke");
  EXPECT_EQ(ownerless.line, 2);
  EXPECT_THAT(ownerless.hint, HasSubstr("a pod without an owner"));
  EXPECT_THAT(rejected(candidate("return pod.labels.app:upper()")).hint,
              HasSubstr("a minimal pod"));
  EXPECT_THAT(rejected(candidate("return nil")).message, HasSubstr("pod returned nil"));
  EXPECT_EQ(rejected(candidate("while true do end")).stage, "smoke");
}

// A policy that selects by a label may rely on it: it is never asked about another pod.
TEST_F(ValidationTest, the_smoke_test_takes_pods_that_are_selected) {
  const std::string select = "select = { labels = 'app in (db),tier,!old' },";
  EXPECT_EQ(
      rejected(candidate("return fence.skip(pod.labels.app .. pod.labels.tier)", select)).stage,
      "accepted");
  EXPECT_EQ(rejected(candidate("return fence.skip(pod.labels.old)", select)).stage, "smoke");
  EXPECT_EQ(rejected(candidate("error('never asked')", "select = { labels = 'a,!a' },")).stage,
            "accepted");
}

TEST_F(ValidationTest, every_verdict_passes_the_smoke_test) {
  for (const char* verdict : {"skip('x')", "delete_pod('x')", "wait('x', 5)", "forbid('x')"}) {
    const auto outcome = run(candidate("return fence." + std::string(verdict)));
    EXPECT_TRUE(std::holds_alternative<Accepted>(outcome)) << verdict;
  }
}

TEST_F(ValidationTest, settings_are_checked_and_set) {
  const std::string declared =
      "settings = { after = { type = 'duration', default = '10s', max = '1h' } },";
  Candidate given = candidate("return fence.wait('x', s.after)", declared);
  given.settings = {{"after", "20s"}};
  const auto outcome = run(given);
  const auto* accepted = std::get_if<Accepted>(&outcome);
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->policy->settings_values().at("after"), 20);
  given.settings = {{"after", "2h"}};
  EXPECT_EQ(rejected(given).stage, "settings");
  given.settings = {{"aftr", "2s"}};
  EXPECT_THAT(rejected(given).text(), HasSubstr("after"));
}

TEST_F(ValidationTest, a_policy_that_wants_more_than_is_served_is_rejected) {
  const Candidate given = candidate("return fence.skip(pod.name)", "needs = { 'volumes' },");
  const Rejection refused = rejected(given);
  EXPECT_EQ(refused.stage, "needs");
  EXPECT_EQ(refused.message, "test.lua declares 'volumes', which this engine cannot serve");
  rules.needs = {"placement", "siblings"};
  EXPECT_THAT(rejected(given).hint, HasSubstr("it can serve placement, siblings"));
  rules.needs = {"volumes"};
  EXPECT_EQ(rejected(given).stage, "accepted");
  EXPECT_THAT(rejected(candidate("return fence.skip('x')",
                                 "node = function(n) return fence.proceed('x') end,"))
                  .message,
              HasSubstr("declares 'node'"));
  EXPECT_THAT(
      rejected(candidate("return fence.skip('x')", "fetch = function(pod, s, got) return nil end,"))
          .message,
      HasSubstr("declares 'fetch'"));
}

TEST_F(ValidationTest, what_a_policy_needs_is_there_in_the_smoke_test) {
  rules.needs = {"volumes", "placement", "root_owner", "siblings", "node", "fetch"};
  const std::string needs = "needs = { 'volumes', 'placement', 'root_owner', 'siblings' },";
  EXPECT_EQ(rejected(candidate("for _, v in ipairs(pod.volumes) do\n"
                               "if v.state == 'bound' then return fence.skip(v.driver) end end\n"
                               "return fence.skip('none')",
                               needs))
                .stage,
            "accepted");
  const Rejection unresolved =
      rejected(candidate("if #pod.volumes == 0 and pod.labels.app == 'smoke' then error('no') end\n"
                         "return fence.skip('x')",
                         needs));
  EXPECT_THAT(unresolved.hint, HasSubstr("a pod with an unresolved claim"));
  EXPECT_EQ(
      rejected(candidate("return fence.skip('x')", "node = function(n) return n.nope end,")).stage,
      "smoke");
  EXPECT_EQ(
      rejected(candidate("return fence.skip('x')", "fetch = function(pod, s, got) return 5 end,"))
          .stage,
      "smoke");
}

// The pod's part waits for what it fetches; its word on the node needs nothing of that, and its
// fault came out in the first incident.
TEST_F(ValidationTest, who_fetches_is_asked_about_the_node_all_the_same) {
  rules.needs = {"node", "fetch"};
  EXPECT_EQ(rejected(candidate("return fence.skip('x')",
                               "fetch = function(pod, s, got) return { v = "
                               "fence.get('longhorn.io/v1beta2', 'volumes', 'longhorn-system', "
                               "'vol-1') } end, node = function(n) return n.nope end,"))
                .stage,
            "smoke");
}

TEST_F(ValidationTest, a_guard_is_known_also_when_it_is_rejected) {
  EXPECT_TRUE(rejected({.name = "test", .source = "fence.forbid('x'"}).may_be_guard);
  const std::string hidden =
      "local f = fence\nif pod.labels.app ~= 'smoke' then return 1 end\n"
      "return f.forbid('x')";
  const Rejection smoke = rejected(candidate(hidden));
  EXPECT_EQ(smoke.stage, "smoke");
  EXPECT_TRUE(smoke.may_be_guard) << "it was loaded, so it is known and not guessed";
  EXPECT_FALSE(rejected(candidate("return 1 -- fence.forbid")).may_be_guard);
}

TEST_F(ValidationTest, the_line_at_fault_is_quoted) {
  const Rejection fault = rejected(candidate("local x = pod.lables\nreturn fence.skip('x')"));
  EXPECT_THAT(fault.quote, HasSubstr("local x = pod.lables"));
  EXPECT_THAT(fault.message, HasSubstr("did you mean 'labels'?"));
}

Candidate shipped(const std::string& name) {
  std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/policies/" + name + "/policy.lua");
  std::stringstream text;
  text << file.rdbuf();
  return {.name = name, .source = text.str()};
}

TEST_F(ValidationTest, the_shipped_policies_are_accepted_by_an_engine_that_serves_what_they_need) {
  rules.needs = {"volumes", "placement", "siblings", "fetch", "source", "node"};
  for (const char* name : {"generic", "iomesh", "longhorn", "noobaa", "storageos"}) {
    const Rejection fault = rejected(shipped(name));
    EXPECT_EQ(fault.stage, "accepted") << name << ": " << fault.text();
  }
}

TEST_F(ValidationTest, one_setting_may_need_what_the_others_do_not) {
  rules.needs = {"node"};
  Candidate noobaa = shipped("noobaa");
  EXPECT_EQ(rejected(noobaa).stage, "accepted");
  noobaa.settings = {{"db", "pod-and-attachments"}};
  EXPECT_EQ(rejected(noobaa).text(),
            "noobaa.lua declares 'volumes', which this engine cannot serve (it can serve node)");
}

// A test file of one case on fixture down.json.
std::string cases(const std::string& verdict) {
  return "local down = fixture 'down.json'\n"
         "return tests { case { name = 'a pod', objects = down, expect = { verdict = '" +
         verdict + "' } } }";
}

TEST_F(ValidationTest, its_own_tests_reject_it) {
  Candidate given = candidate("return fence.skip('x')");
  given.fixtures = {{"test.down.json",
                     R"({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n"},
             "metadata": {"name": "p", "namespace": "d", "uid": "u"}},
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "v"}}]})"}};
  given.test = cases("skip");
  EXPECT_EQ(rejected(given).stage, "accepted");
  given.test = cases("wait");
  const Rejection failed = rejected(given);
  EXPECT_EQ(failed.stage, "self-test");
  EXPECT_EQ(failed.line, 0) << "not a line of the policy";
  EXPECT_THAT(failed.message, HasSubstr("test_test.lua:2: case 'a pod' did not pass"));
}

TEST_F(ValidationTest, tests_that_cannot_run_reject_it) {
  Candidate given = candidate("return fence.skip('x')");
  given.test = cases("skip");
  EXPECT_THAT(rejected(given).message, HasSubstr("no key 'test.down.json'"));
  given.test = "return tests { }";
  EXPECT_EQ(rejected(given).stage, "self-test");
  given.test = "while true do end";
  EXPECT_THAT(rejected(given).message, HasSubstr("instructions"));
}

TEST_F(ValidationTest, a_text_that_is_not_read_may_be_a_guard) {
  EXPECT_TRUE(rejected({.name = "test", .source = std::string(65U << 10U, ' ')}).may_be_guard);
  EXPECT_TRUE(rejected({.name = "test", .source = "-- \xff\n"}).may_be_guard);
}

TEST_F(ValidationTest, its_own_tests_take_little_of_a_turn) {
  Candidate given = candidate("return fence.skip('x')");
  given.test = "local t = {} for i = 1, 1000000 do t[i] = i end";
  EXPECT_THAT(rejected(given).message, HasSubstr("memory"));
  given.fixtures = {{"test.down.json", "[\"" + std::string(2U << 20U, 'x') + "\"]"}};
  given.test = cases("skip");
  EXPECT_THAT(rejected(given).message, HasSubstr("too large together"));
  given.fixtures = {{"test.down.json", "[]"}};
  given.test = "local down = fixture 'folder/down.json'";
  EXPECT_THAT(rejected(given).message, HasSubstr("the ConfigMap has no key"));
}

TEST_F(ValidationTest, cases_share_a_bound_on_what_they_copy) {
  Candidate given = candidate("return fence.skip('x')");
  given.fixtures = {{"test.down.json",
                     R"([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace":
                        "d", "uid": "u", "annotations": {"a": ")" +
                         std::string(100'000, 'x') + "\"}}}]"}};
  given.test =
      "local down, all = fixture 'down.json', {}\n"
      "for i = 1, 50 do all[i] = case { name = 'c' .. i, objects = down, "
      "expect = { verdict = 'skip' } } end return tests(all)";
  EXPECT_THAT(rejected(given).message, HasSubstr("use too much of their fixtures"));
}

TEST_F(ValidationTest, one_case_is_one_slice) {
  Candidate given = candidate("return fence.skip('x')");
  EXPECT_EQ(rejected(given).stage, "accepted");
  const int before = steps;
  std::string text = "return tests {";
  for (int i = 0; i < 20; ++i) {
    text += "case { name = 'c" + std::to_string(i) +
            "', objects = { { apiVersion = 'v1', kind = 'Pod', metadata = { name = 'p', namespace "
            "= 'd', uid = 'u' } } }, expect = { verdict = 'skip' } },";
  }
  given.test = text + "}";
  EXPECT_EQ(rejected(given).stage, "accepted");
  EXPECT_EQ(steps, before + 1 + 20);
}

TEST_F(ValidationTest, all_slices_together_are_bounded_in_cpu_time) {
  rules.limits.cpu = seconds(100);  // the bound of one run is not what is tested here
  rules.limits.compile_cpu = seconds(100);
  TickingCpuClock slow(milliseconds(300));
  const auto outcome = run(candidate("return fence.skip('x')"), slow);
  const auto* rejection = std::get_if<Rejection>(&outcome);
  ASSERT_NE(rejection, nullptr);
  EXPECT_EQ(rejection->stage, "budget");
  EXPECT_TRUE(rejection->may_differ);
  EXPECT_THAT(rejection->message, HasSubstr("took more than 2s of CPU time"));
}

TEST(CandidateTest, an_equal_key_means_an_equal_outcome) {
  const Candidate one = candidate("return fence.skip('x')");
  Candidate other = one;
  EXPECT_EQ(one.key(), other.key());
  EXPECT_EQ(one.digest(), other.digest());
  other.test = "";
  EXPECT_NE(one.key(), other.key());
  EXPECT_EQ(one.digest(), other.digest()) << "tests do not decide";
  other = one;
  other.settings = {{"a", 1}};
  EXPECT_NE(one.digest(), other.digest());
  other.settings = {{"a", "1"}};
  EXPECT_NE(one.digest(), Candidate({.name = "test", .source = one.source + " "}).digest());
}

TEST(RejectionTest, the_line_is_taken_out_of_the_message) {
  const auto of = [](const std::string& text) {
    return rejection("load", Error{.kind = Error::Kind::Invalid, .text = text, .hint = "do"});
  };
  EXPECT_EQ(of("db.lua:12: no 'x'"),
            (Rejection{.stage = "load", .line = 12, .message = "no 'x'", .hint = "do"}));
  EXPECT_EQ(of("db.lua: no 'x'").line, 0);
  EXPECT_EQ(of("db.lua: no 'x'").message, "db.lua: no 'x'");
  EXPECT_EQ(of("no place").message, "no place");
  EXPECT_EQ(of("a:5").message, "a:5");
  EXPECT_EQ(of("a: 5: b").line, 0);
  EXPECT_EQ(of("a:5: b").text(), "b (do)");
}

}  // namespace
}  // namespace moonfence::policy
