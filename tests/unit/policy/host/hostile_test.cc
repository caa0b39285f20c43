// Runs tests/hostile/*.lua. Each file says in its first lines what has to become of it; a file that
// says nothing fails. Nothing in it may ever act, outlive its limits or harm the next evaluation.
//
//   -- row: 28                 of the corpus this comes from
//   -- where: pod              body of the function pod, node, fetch, plan or nodes; or "file": the
//                              whole source
//   -- more: needs = {},       further keys of policy{}
//   -- expect: instructions    ok, load, instructions, memory, cpu, or error; several may be
//   allowed
//   -- says: TEXT              stands in the error, or in the reason of an ok
//
// A line "--@ repeat N TEXT" stands for N copies of TEXT with # replaced by 1 to N; "--@ hex BYTES"
// for these bytes.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/policies.h"

namespace moonfence {
namespace {

struct Script {
  std::map<std::string, std::string> header;
  std::string source;
};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string expanded(const std::string& directive) {
  std::istringstream words(directive);
  std::string command;
  words >> command;
  std::string out;
  if (command == "repeat") {
    int count = 0;
    std::string text;
    words >> count;
    std::getline(words >> std::ws, text);
    for (int i = 1; i <= count; ++i) {
      out += replaced(text, "#", std::to_string(i));
    }
  } else if (command == "hex") {
    std::string bytes;
    words >> bytes;
    for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
      out += static_cast<char>(std::stoi(bytes.substr(i, 2), nullptr, 16));
    }
  } else {
    ADD_FAILURE() << "unknown directive " << command;
  }
  return out;
}

Script read_script(const std::filesystem::path& path) {
  Script script;
  std::ifstream file(path);
  std::string line;
  bool in_header = true;
  while (std::getline(file, line)) {
    const auto colon = line.find(": ");
    if (in_header && line.starts_with("-- ") && colon != std::string::npos) {
      script.header[line.substr(3, colon - 3)] = line.substr(colon + 2);
      continue;
    }
    in_header = false;
    if (line.starts_with("--@ ")) {
      script.source += expanded(line.substr(4));
    } else {
      script.source += line + "\n";
    }
  }
  return script;
}

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MOONFENCE_SOURCE_DIR) + "/tests/hostile")) {
    if (entry.path().extension() == ".lua") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Ending {
  std::string how;
  std::string text;
};

Ending ending_of(const Error& error, bool loading) {
  const auto says = [&error](const char* text) {
    return error.text.find(text) != std::string::npos;
  };
  if (error.kind == Error::Kind::Limit && says("instruction limit")) {
    return {"instructions", error.text};
  }
  if (error.kind == Error::Kind::Limit && says("memory limit")) {
    return {"memory", error.text};
  }
  if (error.kind == Error::Kind::Limit && says("CPU limit")) {
    return {"cpu", error.text};
  }
  return {loading ? "load" : "error", error.text};
}

std::string source_of(const Script& script) {
  const std::string& where = script.header.at("where");
  const auto found = script.header.find("more");
  const std::string more = found == script.header.end() ? "" : found->second;
  if (where == "file") {
    return script.source;
  }
  if (where == "pod") {
    return policy_text(script.source, more);
  }
  const std::string skip = "return fence.skip('alive')";
  if (where == "node") {
    return policy_text(skip, more + "node = function(node, s, cluster)\n" + script.source + "end,");
  }
  if (where == "fetch") {
    return policy_text(skip, more + "fetch = function(pod, s, got)\n" + script.source + "end,");
  }
  const std::string other = where == "plan" ? "nodes" : "plan";
  return policy_text(skip, more + "source = { every = '5s', expiry = '1h', " + other +
                               " = function() end, " + where + " = function(s, got)\n" +
                               script.source + "end },");
}

template <class T>
Ending ending_of_run(const policy::Run<T>& run, const policy::Limits& limits) {
  EXPECT_LE(run.usage.memory_bytes, limits.memory_bytes);
  EXPECT_LE(run.log.size(), 20U);
  if (!run.result) {
    EXPECT_LE(run.result.error().text.size(), 1100U);
    return ending_of(run.result.error(), false);
  }
  EXPECT_LE(run.usage.instructions, limits.instructions);
  return {"ok", ""};
}

// The function under test in a state of its own.
Ending ending_in(const std::string& where, const policy::Policy& policy,
                 const policy::Limits& limits) {
  const nlohmann::json got = sample_facts().fetched;
  if (where == "node") {
    const auto run = policy.judge_node(node_of(sample_node()), sample_cluster());
    EXPECT_TRUE(!run.result || run.result->kind == policy::NodeVerdict::Kind::Proceed);
    return ending_of_run(run, limits);
  }
  if (where == "fetch") {
    return ending_of_run(policy.plan_fetch(pod_of(sample_pod()), sample_facts(), got), limits);
  }
  if (where == "plan") {
    return ending_of_run(policy.plan_source(got), limits);
  }
  if (where == "nodes") {
    return ending_of_run(policy.nodes_of_source(got), limits);
  }
  const auto evaluation = policy.evaluate(pod_of(sample_pod()), node_of(sample_node()),
                                          sample_cluster(), {}, sample_facts());
  Ending ending = ending_of_run(
      policy::Run<policy::Verdict>{
          .result = evaluation.verdict, .usage = evaluation.usage, .log = evaluation.log},
      limits);
  if (evaluation.verdict) {
    EXPECT_LT(evaluation.verdict->kind, policy::Verdict::Kind::DeletePod);
    ending.text = evaluation.verdict->reason;
  }
  return ending;
}

// In each of two states. Limits are asserted by their counters; wall time would depend on the
// machine.
std::vector<Ending> run(const Script& script, port::CpuClock& clock) {
  const policy::Limits limits{.compile_cpu = std::chrono::seconds(2)};
  const auto policy = policy::Policy::load(source_of(script), "test.lua", clock, limits);
  if (!policy) {
    return {ending_of(policy.error(), true)};
  }
  std::vector<Ending> endings;
  for (int state = 0; state < 2; ++state) {
    endings.push_back(ending_in(script.header.at("where"), *policy, limits));
  }
  return endings;
}

class Hostile : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Hostile, ends_as_it_must) {
  const Script script = read_script(GetParam());
  for (const char* key : {"row", "where", "expect"}) {
    ASSERT_TRUE(script.header.contains(key)) << "the file does not say -- " << key << ":";
  }
  // CPU time differs between machines: it runs only for scripts that it may end.
  const bool timed = script.header.at("expect").find("cpu") != std::string::npos;
  ThreadCpuClock running;
  StoppedCpuClock stopped;
  const std::vector<Ending> endings = timed ? run(script, running) : run(script, stopped);
  std::vector<std::string> allowed;
  for (const auto word : split(script.header.at("expect"), ' ')) {
    allowed.emplace_back(word);
  }
  for (const Ending& ending : endings) {
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), ending.how), allowed.end())
        << "ended with " << ending.how << ": " << ending.text;
    // Which of two limits a script meets first may depend on the machine where one of them is time.
    EXPECT_TRUE(timed || ending.how == endings.front().how) << "two states differ: " << ending.text;
    const auto says = script.header.find("says");
    if (says != script.header.end()) {
      EXPECT_NE(ending.text.find(says->second), std::string::npos) << ending.text;
    } else {
      EXPECT_NE(ending.how, "error") << "a file that expects an error says which: " << ending.text;
    }
  }
  EXPECT_EQ(outcome("return fence.delete_pod('as ever')"), "delete_pod: as ever");
}

INSTANTIATE_TEST_SUITE_P(Corpus, Hostile, testing::ValuesIn(scripts()), [](const auto& script) {
  std::string name = script.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace moonfence
