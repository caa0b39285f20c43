#pragma once

// Running cases: each is put to its policy in five fresh states, because the order in which Lua
// walks a table differs from state to state; a policy that depends on it fails.

#include <optional>
#include <string>
#include <vector>

#include "policy/cases/coverage.h"
#include "policy/cases/test_file.h"
#include "policy/cases/test_subject.h"

namespace moonfence::policy {

struct CaseResult {
  enum class State {
    Passed,
    Failed,
    Malformed,  // the case itself is wrong, so nothing was learnt
  };
  std::string name;
  int line = 0;  // in the test file; 0 for a case the tool made
  State state = State::Passed;
  bool automatic = false;
  std::vector<std::string> problems;  // lines; the first names the field: "verdict: want ..."
  std::string outcome;                // words(): "skip", "deferred"
  std::optional<Usage> usage;         // absent when the policy was not asked
  std::vector<FieldRead> reads;       // of a failed case
};

struct FileResult {
  std::string test_file;
  std::string policy_file;
  std::vector<CaseResult> cases;
  Coverage coverage;
  std::string broken;  // why nothing of the file could run
};

// `coverage` receives what the case did.
[[nodiscard]] CaseResult run_case(const Subject& subject, const TestCase& test, Coverage& coverage);

// What a case puts to the policy; the Malformed result says why it cannot.
struct Prepared {
  std::optional<Scene> scene;  // absent for a question to the policy's source
  Stand stand;
};
[[nodiscard]] Result<Prepared> prepare(const Subject& subject, const TestCase& test);

}  // namespace moonfence::policy
