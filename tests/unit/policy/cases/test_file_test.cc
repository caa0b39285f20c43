#include "policy/cases/test_file.h"

#include <gtest/gtest.h>

#include "support/fake_files.h"
#include "support/policies.h"

namespace moonfence::policy {
namespace {

constexpr const char* kPod =
    R"({"kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop", "uid": "u"}})";

struct Reading {
  test::FakeFiles files;
  ThreadCpuClock clock;

  Reading() { files.write("p/pod.json", kPod); }
  Result<TestFile> read(const std::string& source) {
    return read_test_file(source, "p/x_test.lua", files, clock);
  }
  // "" when it is accepted.
  std::string error(const std::string& source) {
    const auto file = read(source);
    return file ? "" : file.error().text;
  }
  std::string case_error(const std::string& keys) {
    return error("return tests { case { name = 'a', " + keys + " } }");
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TestFile, who_reads_it_says_what_it_may_take) {
  test::FakeFiles files;
  const std::string busy = "for i = 1, 100000 do end return tests { }";
  TickingCpuClock slow(std::chrono::milliseconds(1));
  EXPECT_TRUE(read_test_file(busy, "x_test.lua", files, slow));
  const auto refused =
      read_test_file(busy, "x_test.lua", files, slow, {.cpu = std::chrono::milliseconds(50)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::Limit);
  EXPECT_TRUE(has(refused.error().text, "CPU"));
}

TEST(TestFile, a_case_arrives_with_all_it_says) {
  Reading reading;
  const auto file = reading.read(R"(
    local base = fixture "pod.json"
    return tests {
      settings = { a = 1, b = "x" }, now = 100, objects = base,
      case { name = "one", settings = { b = "y" }, patch = { ["pod.owner.kind"] = "Job" },
             fail = { "volumes" }, now = "2026-11-20T10:07:00Z", pod = "shop/web-0",
             expect = { verdict = "wait", seconds = 30, reason = "~soon", reads = { "pod.name" },
                        volumes = { "data" } } },
      case { name = "two", objects = { base, { kind = "Node", metadata = { name = "n1" } } },
             expect = { outcome = "error", message = "nil" } },
      case { name = "three", expect = { nodes = { ["n1"] = "failed" } } },
    })");
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_EQ(file->cases.size(), 3U);
  const TestCase& one = file->cases[0];
  EXPECT_EQ(one.line, 5);
  EXPECT_EQ(one.settings, (nlohmann::json{{"a", 1}, {"b", "y"}}));
  EXPECT_EQ(one.patch, (nlohmann::json{{"pod.owner.kind", "Job"}}));
  EXPECT_EQ(format_rfc3339(*one.now), "2026-11-20T10:07:00Z");
  EXPECT_EQ(one.expect.verdict, "wait");
  EXPECT_EQ(one.expect.seconds, 30.0);
  EXPECT_EQ(one.expect.volumes, (std::vector<std::string>{"data"}));
  EXPECT_EQ(one.objects.size(), 1U);
  EXPECT_EQ(file->cases[1].objects.size(), 2U);
  EXPECT_EQ(file->cases[1].expect.outcome, Expectation::Outcome::Error);
  EXPECT_EQ(file->cases[1].now->time_since_epoch(), std::chrono::seconds(100));
  EXPECT_EQ(file->cases[2].expect.of, Expectation::Of::Source);
  EXPECT_EQ(reading.files.reads("p/pod.json"), 1);
}

// Exactly three names more than a policy has.
TEST(TestFile, the_environment_is_a_policys_and_three_names) {
  Reading reading;
  for (const char* name : {"io", "os", "load", "require", "pcall", "setmetatable", "_G", "print"}) {
    EXPECT_TRUE(has(reading.error(std::string("return ") + name), "unknown global")) << name;
  }
  EXPECT_TRUE(has(reading.error("tests = nil"), "cannot set global 'tests'"));
  StoppedCpuClock clock;
  for (const char* name : {"tests", "case", "fixture"}) {
    const auto policy = Policy::load(std::string("return ") + name, "x.lua", clock);
    ASSERT_FALSE(policy);
    EXPECT_TRUE(has(policy.error().text, "unknown global")) << policy.error().text;
  }
}

TEST(TestFile, expect_is_mandatory) {
  Reading reading;
  EXPECT_TRUE(
      has(reading.case_error("objects = fixture 'pod.json'"), "case 'a'.expect is missing"));
  EXPECT_TRUE(has(reading.case_error("expect = {}"), "says nothing"));
  EXPECT_TRUE(has(reading.case_error("expect = 'skip'"), "must be a table"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'skip', outcome = 'error' }"),
                  "more than one of"));
}

TEST(TestFile, an_unknown_word_is_an_error_with_the_nearest_known) {
  Reading reading;
  EXPECT_TRUE(has(reading.case_error("expct = {}, expect = { verdict = 'skip' }"),
                  "unknown key 'expct' (did you mean 'expect'?)"));
  EXPECT_TRUE(
      has(reading.case_error("expect = { verdict = 'delte_pod' }"), "did you mean 'delete_pod'?"));
  EXPECT_TRUE(
      has(reading.case_error("expect = { outcome = 'defered' }"), "did you mean 'deferred'?"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'skip', resaon = 'x' }"),
                  "did you mean 'reason'?"));
  EXPECT_TRUE(has(reading.error("return tests { settngs = {}, case { name = 'a', expect = { "
                                "verdict = 'skip' } } }"),
                  "did you mean 'settings'?"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'http' }"), "known are skip, forbid"));
}

TEST(TestFile, keys_that_do_not_go_together_are_refused) {
  Reading reading;
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'skip', seconds = 3 }"),
                  "belongs to the verdicts wait, hold and delete_attachments alone"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'delete_pod', release = true }"),
                  "belongs to the verdict delete_pod_and_attachments alone"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'wait', proof = { 'attested' } }"),
                  "belongs to the verdicts that delete or evict pods"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'delete_pod', proof = { 'dead' } }"),
                  "which is not one of: silent, unreachable, isolated, off, attested"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'wait', on_timeout = 'hold' }"),
                  "belongs to the verdict delete_attachments alone"));
  EXPECT_TRUE(
      has(reading.case_error("expect = { verdict = 'delete_attachments', on_timeout = 'wait' }"),
          "is 'wait'; it is hold or delete"));
  EXPECT_TRUE(has(reading.case_error("expect = { outcome = 'deferred', reason = 'x' }"),
                  "belongs to a verdict"));
  EXPECT_TRUE(has(reading.case_error("expect = { verdict = 'skip', message = 'x' }"),
                  "belongs to outcome = 'error' alone"));
  EXPECT_TRUE(has(reading.case_error("expect = { nodes = { n = 'dead' } }"), "none of healthy"));
}

TEST(TestFile, every_case_has_a_name_of_its_own_and_runs) {
  Reading reading;
  const std::string one = "case { name = 'a', expect = { verdict = 'skip' } }";
  EXPECT_TRUE(has(reading.error("return tests { " + one + ",\n" + one + " }"),
                  "case 'a' of line 2 has the name of the one of line 1"));
  EXPECT_TRUE(has(reading.error(one + "\nreturn tests {}"), "would never run"));
  EXPECT_TRUE(has(reading.error("return tests { { name = 'a' } }"),
                  "tests[1] is a table; it must be a case"));
  EXPECT_TRUE(has(reading.error("return tests { fixture 'pod.json' }"), "tests[1] is fixture"));
}

TEST(TestFile, a_file_returns_its_tests) {
  Reading reading;
  EXPECT_TRUE(has(reading.error("local x = 1"), "returned nothing"));
  EXPECT_TRUE(has(reading.error("return {}"), "returned a table"));
  EXPECT_TRUE(has(reading.error("tests {} return 'x'"), "returned a text"));
  EXPECT_TRUE(has(reading.error("tests {} return tests {}"), "called twice"));
  EXPECT_TRUE(has(reading.error("return tests {"), "x_test.lua:1:"));
}

TEST(TestFile, fixtures_stay_below_the_folder_of_the_test) {
  Reading reading;
  for (const char* name : {"../pod.json", "/etc/passwd", "a/../../b", "", ".", "a//b"}) {
    EXPECT_TRUE(has(reading.error(std::string("local x = fixture '") + name + "'"),
                    "is no file below the test's folder"))
        << name;
  }
}

TEST(TestFile, a_bad_fixture_says_what_is_wrong_with_it) {
  Reading reading;
  reading.files.write("p/not.json", "{\"kind\": ");
  reading.files.write("p/list.json", "[1]");
  reading.files.write("p/html.json", "<html>");
  reading.files.write("p/no-kind.json", "{\"metadata\": {\"name\": \"x\"}}");
  reading.files.write("p/no-name.json", "{\"kind\": \"Pod\", \"metadata\": {}}");
  reading.files.write("p/items.json", "{\"kind\": \"PodList\", \"items\": 3}");
  reading.files.write("p/large.json", std::string(20U << 20U, ' '));
  reading.files.write("p/deep.json", std::string(100'000, '['));
  const auto error = [&reading](const std::string& name) {
    return reading.error("return fixture '" + name + "'");
  };
  EXPECT_TRUE(has(error("missing.json"), "no such file")) << error("missing.json");
  EXPECT_TRUE(has(error("not.json"), "fixture not.json: ")) << error("not.json");
  EXPECT_TRUE(has(error("html.json"), "fixture html.json: "));
  EXPECT_TRUE(has(error("list.json"), "fixture list.json[1] is number"));
  EXPECT_TRUE(has(error("no-kind.json"), "has no kind"));
  EXPECT_TRUE(has(error("no-name.json"), "Pod has no metadata.name"));
  EXPECT_TRUE(has(error("items.json"), ".items is no list"));
  EXPECT_TRUE(has(error("large.json"), "larger than 16777216"));
  EXPECT_TRUE(has(error("deep.json"), "fixture deep.json: ")) << error("deep.json");
  EXPECT_TRUE(error("missing.json").starts_with("x_test.lua:1: ")) << error("missing.json");
}

TEST(TestFile, lists_of_kubectl_are_taken_apart) {
  Reading reading;
  reading.files.write("p/all.json", std::string(R"({"kind": "List", "items": [)") + kPod +
                                        R"(, {"kind": "NodeList", "items": [
        {"kind": "Node", "metadata": {"name": "n1"}},
        {"kind": "Node", "metadata": {"name": "n2"}}]}]})");
  const auto file = reading.read(
      "return tests { case { name = 'a', objects = fixture 'all.json', expect = { verdict = 'skip' "
      "} } }");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->cases[0].objects.size(), 3U);
}

TEST(TestFile, hostile_files_end) {
  Reading reading;
  EXPECT_TRUE(has(reading.error("while true do end"), "limit: used"));
  EXPECT_TRUE(
      has(reading.error("local t = {} while true do t[#t + 1] = { {} } end"), "limit: used"));
  EXPECT_TRUE(has(reading.error("local s = 'x' while true do s = s .. s end"), "memory limit"));
  EXPECT_TRUE(has(reading.error("local function f() return f() end return f()"), "limit: used"));
  EXPECT_TRUE(has(reading.error("\x1bLua"), "x_test.lua"));
  EXPECT_TRUE(has(reading.error(std::string((1U << 20U) + 1, ' ')), "of 1048576 bytes"));
}

TEST(TestFile, tables_that_hold_themselves_are_refused) {
  Reading reading;
  const std::string keys = "expect = { verdict = 'skip' }";
  EXPECT_TRUE(
      has(reading.error("local t = {} t.t = t return tests { case { name = 'a', patch = t, " +
                        keys + " } }"),
          "nests deeper than 32 tables"));
  // Two ways at each of 30 levels: a thousand million values.
  EXPECT_TRUE(has(reading.error("local t = { x = 1 } for i = 1, 30 do t = { a = t, b = t } end\n"
                                "return tests { case { name = 'a', settings = t, " +
                                keys + " } }"),
                  "instruction limit"));
  EXPECT_TRUE(
      has(reading.error("local s = string.format('%099d', 1) for i = 1, 14 do s = s .. s end\n"
                        "local t = {} for i = 1, 100 do t[i] = s end\n"
                        "return tests { case { name = 'a', patch = { x = t }, " +
                        keys + " } }"),
          "instruction limit"));
}

TEST(TestFile, values_that_are_no_data_are_refused) {
  Reading reading;
  const auto error = [&reading](const std::string& value) {
    return reading.case_error("patch = { x = " + value + " }, expect = { verdict = 'skip' }");
  };
  EXPECT_TRUE(has(error("function() end"), "case 'a'.patch.x is a function"));
  EXPECT_TRUE(has(error("0/0"), "is not a finite number"));
  EXPECT_TRUE(has(error("{ 1, a = 2 }"), "mixes a list with names such as 'a'"));
  EXPECT_TRUE(has(error("{ [1] = 1, [3] = 3 }"), "is a list without its entry 2"));
  EXPECT_TRUE(has(error("{ [true] = 1 }"), "as a key"));
  EXPECT_TRUE(has(reading.case_error("now = 'noon', expect = { verdict = 'skip' }"), "RFC 3339"));
  EXPECT_TRUE(has(reading.case_error("now = -1, expect = { verdict = 'skip' }"), "RFC 3339"));
  EXPECT_TRUE(has(reading.case_error("objects = 3, expect = { verdict = 'skip' }"),
                  "must be a fixture, an object, or a list of both"));
}

}  // namespace
}  // namespace moonfence::policy
