#include "policy/cases/chunk_map.h"

#include <gtest/gtest.h>

#include "policy/cases/coverage.h"
#include "support/policies.h"

namespace moonfence::policy {
namespace {

ChunkMap map_of(const std::string& source) {
  StoppedCpuClock clock;
  auto map = map_chunk(source, "x.lua", clock);
  EXPECT_TRUE(map) << (map ? "" : map.error().text);
  return map ? std::move(*map) : ChunkMap();
}

TEST(ChunkMap, lines_are_those_that_can_run) {
  EXPECT_EQ(map_of("-- nothing\n\nlocal a = 1\n\n-- end\nreturn a\n").lines, (std::set<int>{3, 6}));
}

// A closure is made on the line of its end; the end of an `if` does nothing.
TEST(ChunkMap, functions_count_with_their_end) {
  EXPECT_EQ(map_of("local f = function()\n  return 1\nend\nreturn f\n").lines,
            (std::set<int>{2, 3, 4}));
  EXPECT_EQ(map_of("return { f = function(a)\n  if a then\n    return 1\n  end\nend,\n}\n").lines,
            (std::set<int>{1, 2, 3, 5, 6}));
  // The jump over `else` that follows a return never runs.
  EXPECT_EQ(map_of("return function(a)\n  if a then\n    return 1\n  else\n    return 2\n  end\n"
                   "end\n")
                .lines,
            (std::set<int>{2, 3, 5, 7}));
}

TEST(ChunkMap, every_kind_of_loop_is_followed) {
  const std::string source =
      "local n = 0\n"                // 1
      "for i = 1, 2 do\n"            // 2
      "  n = n + i\n"                // 3
      "end\n"                        // 4
      "while n > 0 do\n"             // 5
      "  n = n - 1\n"                // 6
      "end\n"                        // 7
      "repeat\n"                     // 8
      "  n = n + 1\n"                // 9
      "until n > 3\n"                // 10
      "for _, v in ipairs({}) do\n"  // 11
      "  n = n + v\n"                // 12
      "end\n"                        // 13
      "goto done\n"                  // 14
      "n = 99\n"                     // 15: cannot run
      "::done::\n"                   // 16
      "return n > 0 and n or not n\n";
  const std::set<int> lines = map_of(source).lines;
  for (const int line : {1, 2, 3, 5, 6, 9, 10, 11, 12, 14, 17}) {
    EXPECT_TRUE(lines.contains(line)) << line;
  }
  EXPECT_FALSE(lines.contains(15));
}

TEST(ChunkMap, verdicts_are_where_they_are_named) {
  const std::string source = policy_text(
      "if pod.ready then\n return fence.skip('a') end\nlocal later = fence.wait\n"
      "-- fence.forbid\nreturn later('fence.delete_pod')");
  EXPECT_EQ(map_of(source).verdicts,
            (std::set<VerdictSite>{{.line = 3, .name = "skip"}, {.line = 4, .name = "wait"}}));
}

TEST(ChunkMap, what_does_not_compile_fails_with_its_line) {
  StoppedCpuClock clock;
  const auto map = map_chunk("local a =\n\nreturn }", "x.lua", clock);
  ASSERT_FALSE(map);
  EXPECT_TRUE(map.error().text.starts_with("x.lua:3:")) << map.error().text;
}

// More than 128 lines between two instructions, and more instructions than one table of absolute
// lines covers.
TEST(ChunkMap, long_files_keep_their_lines) {
  std::string source = "local n = 0" + std::string(300, '\n');
  for (int i = 0; i < 400; ++i) {
    source += "n = n + 1\n";
  }
  source += "return n\n";
  const std::set<int> lines = map_of(source).lines;
  EXPECT_EQ(lines.size(), 402U);
  EXPECT_EQ(*lines.rbegin(), 701);
}

// What the hook sees is among what was read from the bytecode, and all of it can be reached.
TEST(ChunkMap, a_trace_reaches_exactly_the_map) {
  const std::string source = policy_text(
      "local names = {}\n"
      "for key, value in pairs(pod.labels) do\n"
      "  if value == 'web' then\n"
      "    table.insert(names,\n"
      "      key)\n"
      "  else\n"
      "    names[#names + 1] = 'other'\n"
      "  end\n"
      "end\n"
      "local function joined()\n"
      "  return table.concat(names, ',')\n"
      "end\n"
      "return fence.wait(\n"
      "  'labels ' .. joined(),\n"
      "  30)");
  auto policy = load_text(source);
  ASSERT_TRUE(policy) << policy.error().text;
  Trace trace;
  const auto traced = policy->with_settings(nlohmann::json::object(), &trace);
  ASSERT_TRUE(traced);
  Coverage coverage{.all = map_of(source), .lines = {}, .verdicts = {}};
  coverage.add(trace);
  ASSERT_TRUE(traced->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster()));
  for (const int line : trace.lines) {
    EXPECT_TRUE(coverage.all.lines.contains(line)) << line;
  }
  coverage.add(trace);
  EXPECT_EQ(coverage.text(), "lines " + std::to_string(coverage.all.lines.size()) + "/" +
                                 std::to_string(coverage.all.lines.size()) + ", verdicts 1/1");
  EXPECT_TRUE(coverage.reaches(100));
}

TEST(Trace, reads_have_paths_and_values) {
  auto policy =
      load_text(policy_text("local o = pod.owners[2]\nlocal n = pod.raw:get('spec.nodeName')\n"
                            "for k, v in pairs(pod.labels) do k = v end\nlog.info(o.kind)\n"
                            "return fence.skip(tostring(pod.annotations['a.b/c']) .. s.x .. n)",
                            "settings = { x = { type = 'string', default = 'y' } },"));
  ASSERT_TRUE(policy) << policy.error().text;
  Trace trace;
  const auto traced = policy->with_settings(nlohmann::json::object(), &trace);
  ASSERT_TRUE(traced->decide(pod_of(sample_pod()), node_of(sample_node()), sample_cluster()));
  std::string text;
  for (const FieldRead& read : trace.reads) {
    text += read.path + "=" + read.value + "\n";
  }
  EXPECT_EQ(text,
            "pod.raw.spec.nodeName=\"n1\"\npod.labels.app=\"web\"\npod.labels.tier=\"front\"\n"
            "pod.labels.zone=\"b\"\npod.owners[2].kind=\"StatefulSet\"\n"
            "pod.annotations[\"a.b/c\"]=nil\nsettings.x=\"y\"\n");
}

TEST(Coverage, is_counted_and_names_what_is_missing) {
  Coverage coverage;
  coverage.all = {.lines = {1, 2, 3, 5, 6, 9},
                  .verdicts = {{.line = 5, .name = "skip"}, {.line = 9, .name = "wait"}}};
  Trace trace;
  trace.lines = {1, 5, 77};
  trace.returned = {.line = 5, .name = "skip"};
  coverage.add(trace);
  EXPECT_EQ(coverage.text(),
            "lines 2/6 (not run: 2-3, 6, 9), verdicts 1/2 (never returned: fence.wait at line 9)");
  EXPECT_TRUE(coverage.reaches(33));
  EXPECT_FALSE(coverage.reaches(34));
}

// 9,999 of 10,000 are not 100 %.
TEST(Coverage, is_never_rounded_up) {
  Coverage coverage;
  for (int line = 1; line <= 10'000; ++line) {
    coverage.all.lines.insert(line);
  }
  coverage.lines = coverage.all.lines;
  EXPECT_TRUE(coverage.reaches(100));
  coverage.lines.erase(77);
  EXPECT_FALSE(coverage.reaches(100));
  EXPECT_TRUE(coverage.reaches(99));
}

}  // namespace
}  // namespace moonfence::policy
