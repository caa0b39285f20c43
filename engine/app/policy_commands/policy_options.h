#pragma once

// The command line of `moonfence policy`, as values.

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace moonfence::app {

// Exit codes of `moonfence policy`, part of its documentation.
enum class PolicyExit : int {
  Ok = 0,
  CaseFailed = 1,   // a case failed, the evaluated policy did, or a replayed verdict changed
  Unusable = 2,     // a file does not load, or a case is malformed
  NothingRun = 3,   // no case was run
  LowCoverage = 4,  // below --coverage=MIN
  Usage = 64,
};

struct PolicyOptions {
  enum class Verb { Check, Test, Eval, Replay, List, Doc, Meta, New };

  // check: the files; test: where to look; eval, doc, new: the policy
  std::vector<std::string> paths;
  std::string from;  // of new: the shipped policy to begin with; "" a skeleton
  std::string out;   // of meta and new: a folder, "" for standard output or here

  std::string least_after;  // of check: a time as given; "" the default of the configuration

  std::string run;            // of test: a glob over the names of cases, "" for all
  std::string coverage_text;  // as given; the two below say it
  std::string junit;          // file to write, "" for none

  std::string pod;               // of eval: a file
  std::string pod_name;          // which of its pods
  std::string with;              // a folder of further objects
  std::string responses;         // a file of answers to what the policy asks for, of replay too
  std::vector<std::string> set;  // "key=value", of replay too
  std::string records;           // of replay: the folder that capture wrote
  std::string instead_of;        // whose recorded verdicts to compare with; "" the policy's own
  std::string now;

  Verb verb = Verb::Check;
  unsigned coverage_min = 0;  // of test: percent
  bool coverage = false;
  bool json = false;
  bool automatic = false;
  bool strict = false;    // of check
  bool explain = false;   // of eval
  bool markdown = false;  // of meta: the reference page
};

// Adds the group with its subcommands; `options` outlives the parsing.
CLI::App* add_policy(CLI::App& app, PolicyOptions& options);

// What the parser cannot see; "" when all is well.
[[nodiscard]] std::string problem_of(const PolicyOptions& options);

}  // namespace moonfence::app
