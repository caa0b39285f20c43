#include "fuzz/policy_oracle.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <lua.hpp>

#include "base/text.h"
#include "base/time.h"
#include "fuzz/finding.h"
#include "fuzz/policy_cases.h"
#include "support/policies.h"

namespace moonfence::fuzz {
namespace {

constexpr std::size_t kHookInterval = 200;
constexpr std::size_t kLongestError = 1100;  // 1 KiB and the file's name
constexpr std::size_t kLongestReason = 512;
constexpr std::size_t kLongestLogLine = 1024;
constexpr std::size_t kLogLines = 20;
constexpr std::size_t kMostRequests = 8;
// Between two count hooks nothing looks at the clock; what Lua does there is bounded by its memory.
constexpr Duration kSlack = std::chrono::seconds(2);

struct Tally {
  std::uint64_t programs = 0;
  std::uint64_t compiled = 0;
  std::uint64_t loaded = 0;
  std::uint64_t configured = 0;  // with values of a binding
  std::uint64_t evaluations = 0;
  std::uint64_t decided = 0;
  std::uint64_t acting = 0;
  std::uint64_t limited = 0;
  std::uint64_t hooks = 0;  // runs of node, fetch and source
  std::uint64_t hooks_ended_well = 0;
  std::uint64_t compared = 0;
  Duration longest{};

  Tally() = default;
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  ~Tally() {
    const auto percent = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
    };
    std::fprintf(
        stderr,
        "programs %lu, compiled %lu (%.1f %%), loaded %lu (%.1f %%), with settings of a "
        "binding %lu; evaluations %lu, decided %lu (%.1f %%), of these acting %lu; stopped "
        "by a limit %lu; other hooks %lu, well %lu (%.1f %%); compared with a second run "
        "%lu; longest run %s CPU\n",
        programs, compiled, percent(compiled, programs), loaded, percent(loaded, programs),
        configured, evaluations, decided, percent(decided, evaluations), acting, limited, hooks,
        hooks_ended_well, percent(hooks_ended_well, hooks), compared,
        format_duration(std::chrono::floor<std::chrono::milliseconds>(longest)).c_str());
  }
};

Tally& tally() {
  static Tally counts;
  return counts;
}

[[noreturn]] void report(const std::string& source, const std::string& what) {
  std::fprintf(stderr, "---- policy\n%.*s\n", static_cast<int>(source.size()), source.data());
  fuzz::report(what);
}

void check_text(const std::string& source, const char* what, std::string_view text,
                std::size_t longest) {
  if (text.size() > longest) {
    report(source, std::string(what) + " has " + std::to_string(text.size()) + " bytes");
  }
  if (!is_plain(text)) {
    report(source, std::string(what) + " has control bytes: " + escaped(text));
  }
  // As Lua itself writes a value that has no text.
  for (const char* address : {"table: 0x", "function: 0x", "userdata: 0x", "builtin: 0x"}) {
    if (text.find(address) != std::string_view::npos) {
      report(source, std::string(what) + " has an address: " + escaped(text));
    }
  }
}

void check_error(const std::string& source, const Error& error) {
  check_text(source, "the error", error.text, kLongestError);
  check_text(source, "the hint", error.hint, kLongestError);
  if (!error.text.starts_with("test.lua")) {
    report(source, "the error does not name the file: " + error.text);
  }
  if (error.text.find("internal error") != std::string::npos) {
    report(source, error.text);
  }
}

bool acts(policy::Verdict::Kind kind) {
  switch (kind) {
    case policy::Verdict::Kind::Skip:
    case policy::Verdict::Kind::Forbid:
    case policy::Verdict::Kind::Hold:
    case policy::Verdict::Kind::Wait:
      return false;
    case policy::Verdict::Kind::DeletePod:
    case policy::Verdict::Kind::DeletePodAndAttachments:
    case policy::Verdict::Kind::DeleteAttachments:
      return true;
  }
  return true;
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether the word stands in the text, not as a part of a longer one.
bool names(const std::string& source, const std::string& word) {
  for (auto at = source.find(word); at != std::string::npos; at = source.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == source.size() || !is_name_byte(source[end])) {
      return true;
    }
  }
  return false;
}

void check_named(const Candidate& candidate, std::string_view constructor) {
  if (candidate.spelled_out && !names(candidate.source, std::string(constructor))) {
    report(candidate.source,
           "the verdict is " + std::string(constructor) + ", which the text does not name");
  }
}

void check_reason(const Candidate& candidate, const std::string& reason) {
  check_text(candidate.source, "the reason", reason, kLongestReason);
  if (reason.empty()) {
    report(candidate.source, "the verdict has no reason");
  }
}

void check_wait(const Candidate& candidate, Duration wait) {
  if (wait < std::chrono::seconds(1) || wait > std::chrono::hours(1)) {
    report(candidate.source, "it waits " + format_duration(wait));
  }
}

// What is checked of a result, and its text: equal for equal results.
std::string checked(const Candidate& candidate, const policy::Policy& policy,
                    const policy::Verdict& verdict) {
  using Kind = policy::Verdict::Kind;
  check_reason(candidate, verdict.reason);
  check_named(candidate, policy::to_string(verdict.kind));
  if (verdict.kind == Kind::Wait || verdict.kind == Kind::Hold ||
      verdict.kind == Kind::DeleteAttachments) {
    check_wait(candidate, verdict.wait);
  }
  if (verdict.kind == Kind::Forbid && !policy.is_guard()) {
    report(candidate.source, "it forbids and is no guard");
  }
  const bool with_volumes =
      verdict.kind == Kind::DeletePodAndAttachments || verdict.kind == Kind::DeleteAttachments;
  if ((!with_volumes && (verdict.release || !verdict.volumes.empty())) ||
      (with_volumes && !policy.needs().volumes) ||
      (verdict.kind == Kind::DeleteAttachments && verdict.volumes.empty())) {
    report(candidate.source, "its verdict has volumes that do not belong to it");
  }
  std::string text = std::string(policy::to_string(verdict.kind)) + ": " + verdict.reason +
                     " after " + format_duration(verdict.wait) +
                     (verdict.release ? " release" : "");
  for (const policy::VolumeFacts& volume : verdict.volumes) {
    if (volume.pv.empty()) {
      report(candidate.source, "its verdict names a claim without a volume");
    }
    text += " " + volume.pv;
  }
  return text;
}

std::string checked(const Candidate& candidate, const policy::Policy& policy,
                    const policy::NodeVerdict& verdict) {
  if (policy.judges_node()) {
    check_reason(candidate, verdict.reason);
    check_named(candidate, policy::to_string(verdict.kind));
  }
  if (verdict.kind == policy::NodeVerdict::Kind::Hold) {
    check_wait(candidate, verdict.wait);
  }
  return std::string(policy::to_string(verdict.kind)) + ": " + verdict.reason + " after " +
         format_duration(verdict.wait);
}

std::string checked(const Candidate& candidate, const policy::Policy& /*policy*/,
                    const policy::Requests& requests) {
  std::string text;
  if (requests.size() > kMostRequests) {
    report(candidate.source, "it makes " + std::to_string(requests.size()) + " requests");
  }
  for (const auto& [name, request] : requests) {
    const bool outside =
        request.path.find("..") != std::string::npos ||
        request.path.find("//") != std::string::npos || request.resource == "secrets" ||
        (request.resource + request.space + request.name).find('/') != std::string::npos;
    const bool lists = request.kind == policy::Request::Kind::Object && request.name.empty();
    if (outside || lists || !is_plain(request.text()) || !is_plain(name)) {
      report(candidate.source, "it asks for " + escaped(request.text()));
    }
    text += name + " = " + request.text() + "; ";
  }
  return text;
}

std::string checked(const Candidate& candidate, const policy::Policy& /*policy*/,
                    const policy::NodeStates& states) {
  std::string text;
  for (const auto& [node, health] : states) {
    if (node.empty() || !is_plain(node.text())) {
      report(candidate.source, "it knows a node " + escaped(node.text()));
    }
    text += node.text() + " " + std::string(policy::to_string(health)) + "; ";
  }
  return text;
}

void check_run(const Candidate& candidate, const policy::Usage& usage,
               const std::vector<std::string>& log, bool ended_well) {
  const policy::Limits& limits = candidate.limits;
  if (usage.memory_bytes > limits.memory_bytes) {
    report(candidate.source, "it used " + std::to_string(usage.memory_bytes) + " bytes");
  }
  if (usage.cpu > limits.cpu + kSlack) {
    report(candidate.source, "it ran for " + format_duration(usage.cpu) + " of CPU time");
  }
  // What the allocator charges is collected by the next hook: at most one block an instruction.
  const std::uint64_t debt = kHookInterval * (usage.memory_bytes / 64);
  if (ended_well && usage.instructions > limits.instructions + kHookInterval + debt) {
    report(candidate.source, "it decided with " + std::to_string(usage.instructions) + " of " +
                                 std::to_string(limits.instructions) + " instructions");
  }
  if (log.size() > kLogLines) {
    report(candidate.source, "it logged " + std::to_string(log.size()) + " lines");
  }
  for (const std::string& line : log) {
    check_text(candidate.source, "a log line", line, kLongestLogLine);
  }
  tally().longest = std::max(tally().longest, usage.cpu);
}

// How a run ended.
struct Ending {
  std::string text;
  bool well = false;
  bool met_limit = false;
  bool met_time = false;
};

template <class T>
Ending ending_of(const Candidate& candidate, const policy::Policy& policy, const Result<T>& result,
                 const policy::Usage& usage, const std::vector<std::string>& log) {
  check_run(candidate, usage, log, result.has_value());
  Ending ending{.text = {}, .well = result.has_value()};
  if (result) {
    ending.text = checked(candidate, policy, *result);
  } else {
    check_error(candidate.source, result.error());
    ending.text = result.error().text;
    ending.met_limit = result.error().kind == Error::Kind::Limit;
    ending.met_time = ending.text.find("CPU limit") != std::string::npos;
  }
  if (candidate.repeats == Repeats::Exactly) {
    ending.text += " [" + std::to_string(usage.instructions) + " instructions]";
  }
  for (const std::string& line : log) {
    ending.text += "\n" + line;
  }
  return ending;
}

void compare(const Candidate& candidate, const Ending& first, const Ending& second) {
  const bool met_limits = first.met_limit || second.met_limit;
  if (candidate.repeats == Repeats::Nothing || first.met_time || second.met_time ||
      (candidate.repeats == Repeats::AtOtherCost && met_limits)) {
    return;
  }
  ++tally().compared;
  if (first.text != second.text) {
    report(candidate.source, "two runs differ:\n  " + first.text + "\n  " + second.text);
  }
}

ThreadCpuClock& cpu_clock() {
  static ThreadCpuClock running;
  return running;
}

// A policy that has nothing to do with the candidates must not notice them.
void check_bystander(const std::string& source) {
  static const policy::Policy bystander = [] {
    auto loaded = policy::Policy::load(
        policy_text("local parts = pod.name:split('-')\n"
                    "table.sort(parts)\n"
                    "return fence.wait(table.concat(parts, '+') .. ' ' .. node.name, #parts)"),
        "test.lua", cpu_clock(), patient_limits());
    if (!loaded) {
      std::fprintf(stderr, "the bystander does not load: %s\n", loaded.error().text.c_str());
      std::abort();
    }
    return std::move(*loaded);
  }();
  const auto evaluate = [&] {
    const Case& usual = cases().front();
    const auto evaluation = bystander.evaluate(usual.pod, usual.node, sample_cluster());
    return ending_of({.source = bystander.source(), .limits = patient_limits()}, bystander,
                     evaluation.verdict, evaluation.usage, evaluation.log)
        .text;
  };
  static const std::string expected = evaluate();
  if (const std::string now = evaluate(); now != expected) {
    report(source, "another policy decides differently after it: " + now + ", not " + expected);
  }
}

bool compiles(const std::string& source) {
  lua_State* const lua = luaL_newstate();
  const bool good = luaL_loadbufferx(lua, source.data(), source.size(), "@test.lua", "t") == LUA_OK;
  lua_close(lua);
  return good;
}

void check_declaration(const std::string& source, const policy::Policy& policy) {
  check_text(source, "the summary", policy.summary(), 512);
  check_text(source, "the version", policy.version(), 64);
  const policy::Trigger& trigger = policy.trigger();
  if (policy.name() != "test" || trigger.failures < 1 || trigger.failures > 1000 ||
      trigger.interval < Duration::zero() || trigger.interval > std::chrono::hours(24)) {
    report(source, "it loaded with a declaration that breaks a rule");
  }
  for (const std::string& warning : policy.warnings()) {
    check_text(source, "a warning", warning, kLongestError);
  }
  (void)policy.selects({{"app", "web"}, {"tier", ""}});
}

// A hook other than pod(), twice; its result.
template <class Ask>
auto ask_twice(const Candidate& candidate, const policy::Policy& policy, Ask ask) {
  auto first = ask();
  const auto second = ask();
  const Ending ended = ending_of(candidate, policy, first.result, first.usage, first.log);
  compare(candidate, ended, ending_of(candidate, policy, second.result, second.usage, second.log));
  ++tally().hooks;
  tally().hooks_ended_well += ended.well ? 1 : 0;
  return std::move(first.result);
}

// Asks `plan` until it has enough, as the engine does; false when a round failed.
template <class Plan>
bool gather(const Candidate& candidate, const policy::Policy& policy, const Case& given,
            nlohmann::json& got, Plan plan) {
  constexpr int kRounds = 4;
  got = nlohmann::json::object();
  for (int round = 0; round < kRounds; ++round) {
    const auto requests = ask_twice(candidate, policy, [&] { return plan(got); });
    if (!requests) {
      return false;
    }
    if (requests->empty()) {
      return true;
    }
    for (const auto& [name, request] : *requests) {
      got[name] = given.answer;
    }
  }
  return true;
}

void run_other_hooks(const Candidate& candidate, const policy::Policy& policy, const Case& given,
                     policy::PodFacts& known) {
  if (policy.judges_node()) {
    (void)ask_twice(candidate, policy,
                    [&] { return policy.judge_node(given.node, sample_cluster(), given.facts); });
  }
  nlohmann::json got;
  if (policy.health_source() &&
      gather(candidate, policy, given, got,
             [&](const nlohmann::json& answers) { return policy.plan_source(answers); })) {
    (void)ask_twice(candidate, policy, [&] { return policy.nodes_of_source(got); });
  }
  if (policy.fetches() && gather(candidate, policy, given, got, [&](const nlohmann::json& answers) {
        return policy.plan_fetch(given.pod, known, answers);
      })) {
    known.fetched = std::move(got);
  }
}

// With `again` twice, to compare.
void evaluate_case(const Candidate& candidate, const policy::Policy& policy, const Case& given,
                   bool again) {
  policy::PodFacts known = given.known;
  if (again) {
    run_other_hooks(candidate, policy, given, known);
  }
  Tally& counts = tally();
  const auto evaluate = [&] {
    const auto evaluation =
        policy.evaluate(given.pod, given.node, sample_cluster(), given.facts, known);
    if (evaluation.verdict) {
      counts.acting += acts(evaluation.verdict->kind) ? 1 : 0;
    }
    return ending_of(candidate, policy, evaluation.verdict, evaluation.usage, evaluation.log);
  };
  const Ending first = evaluate();
  ++counts.evaluations;
  counts.decided += first.well ? 1 : 0;
  counts.limited += first.met_limit ? 1 : 0;
  if (again) {
    compare(candidate, first, evaluate());
  }
}

// With what a binding sets, if that is allowed.
void configure(const Candidate& candidate, policy::Policy& policy) {
  if (candidate.settings.is_null()) {
    return;
  }
  auto configured = policy.with_settings(candidate.settings);
  if (!configured) {
    return check_error(candidate.source, configured.error());
  }
  ++tally().configured;
  for (const std::string& notice : configured->notices()) {
    check_text(candidate.source, "a notice", notice, kLongestError);
  }
  policy = std::move(*configured);
}

}  // namespace

policy::Limits patient_limits() {
  return {.cpu = std::chrono::milliseconds(250), .compile_cpu = std::chrono::milliseconds(500)};
}

Repeats repeats_of(const std::string& source) {
  for (auto at = source.find("pairs"); at != std::string::npos; at = source.find("pairs", at + 1)) {
    if (at == 0 || source[at - 1] != 'i') {
      return Repeats::Nothing;
    }
  }
  // A backslash may spell a name in another way.
  if (source.find("next") != std::string::npos || source.find('\\') != std::string::npos) {
    return Repeats::Nothing;
  }
  return Repeats::AtOtherCost;
}

void judge(const Candidate& candidate) {
  Tally& counts = tally();
  ++counts.programs;
  auto policy = policy::Policy::load(candidate.source, "test.lua", cpu_clock(), candidate.limits);
  if (!policy) {
    check_error(candidate.source, policy.error());
    counts.compiled += compiles(candidate.source) ? 1 : 0;
  } else {
    ++counts.compiled;
    ++counts.loaded;
    check_declaration(candidate.source, *policy);
    configure(candidate, *policy);
    // Two of the cases, by a number that is as good as any and belongs to the text.
    const std::size_t chosen = candidate.source.size() % cases().size();
    evaluate_case(candidate, *policy, cases()[chosen], true);
    evaluate_case(candidate, *policy, cases()[(chosen + 1) % cases().size()], false);
  }
  check_bystander(candidate.source);
}

}  // namespace moonfence::fuzz
