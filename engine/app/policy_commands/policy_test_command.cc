#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/policy_commands/policy_command.h"
#include "base/text.h"
#include "os/tools/folders.h"
#include "policy/cases/test_run.h"
#include "policy/kit/auto_cases.h"
#include "policy/kit/test_report.h"

namespace moonfence::app {
namespace {

using policy::CaseResult;
using policy::FileResult;

// * stands for any text, ? for one character.
bool matches(std::string_view glob, std::string_view text) {
  std::size_t g = 0;
  std::size_t t = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;  // where to try again from
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = {++g, t};
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star) {
      g = star->first;
      t = ++star->second;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

Result<std::vector<std::string>> test_files(const std::string& path) {
  if (os::is_folder(path)) {
    return os::find_files(path, "_test.lua");
  }
  const std::string test =
      policy_path_of(path).empty() && path.ends_with(".lua") ? test_path_of(path) : path;
  if (policy_path_of(test).empty()) {
    return failure(Error::Kind::Invalid,
                   escaped(path) + " is no test file, no policy and no folder",
                   "tests of my-db.lua stand in my-db_test.lua");
  }
  if (!os::is_file(test)) {
    return failure(Error::Kind::NotFound, escaped(test) + ": no such file",
                   "tests of my-db.lua stand in my-db_test.lua; `moonfence policy new` writes a "
                   "first one");
  }
  return std::vector<std::string>{test};
}

// policies/NAME/policy.lua, as the shipped ones lie.
bool is_shipped(const std::string& policy_path) {
  const auto parts = split(policy_path, '/');
  return parts.size() >= 3 && parts.back() == "policy.lua" && parts[parts.size() - 3] == "policies";
}

void run_cases(const policy::Subject& subject, const policy::TestFile& tests,
               const PolicyOptions& options, bool automatic, FileResult& result) {
  std::vector<policy::TestCase> chosen;
  std::copy_if(tests.cases.begin(), tests.cases.end(), std::back_inserter(chosen),
               [&options](const policy::TestCase& test) {
                 return options.run.empty() || matches(options.run, test.name);
               });
  for (const policy::TestCase& test : chosen) {
    result.cases.push_back(policy::run_case(subject, test, result.coverage));
  }
  if (automatic) {
    for (CaseResult& made : policy::run_auto_cases(subject, chosen)) {
      result.cases.push_back(std::move(made));
    }
  }
}

FileResult run_file(const std::string& path, const PolicyOptions& options,
                    const PolicyGround& ground) {
  FileResult result{.test_file = path, .policy_file = policy_path_of(path)};
  auto source = ground.files.read(result.policy_file);
  if (!source) {
    result.broken = source.error().message();
    return result;
  }
  auto subject = policy::load_subject(*source, result.policy_file, ground.clock);
  if (!subject) {
    result.broken = subject.error().message();
    return result;
  }
  const auto text = ground.files.read(path);
  const auto tests = text ? policy::read_test_file(*text, path, ground.files, ground.clock)
                          : Result<policy::TestFile>(failure(text.error()));
  if (!tests) {
    result.broken = tests.error().message();
    return result;
  }
  result.coverage.all = subject->map;
  run_cases(*subject, *tests, options, options.automatic || is_shipped(result.policy_file), result);
  return result;
}

PolicyExit exit_of(const std::vector<FileResult>& files, const PolicyOptions& options) {
  const policy::Totals totals = policy::totals_of(files);
  if (totals.broken + totals.malformed > 0) {
    return PolicyExit::Unusable;
  }
  if (totals.failed > 0) {
    return PolicyExit::CaseFailed;
  }
  if (totals.passed == 0) {
    return PolicyExit::NothingRun;
  }
  const bool covered = std::all_of(files.begin(), files.end(), [&options](const FileResult& file) {
    return file.cases.empty() || file.coverage.reaches(options.coverage_min);
  });
  return covered ? PolicyExit::Ok : PolicyExit::LowCoverage;
}

std::string complaint(PolicyExit code, const PolicyOptions& options, const std::string& path) {
  if (code == PolicyExit::NothingRun) {
    return "moonfence policy test: nothing was run: " +
           (options.run.empty() ? "there is no case in " + escaped(path)
                                : "no case is called '" + escaped(options.run, 128) + "'") +
           "\n  next: tests of my-db.lua stand in my-db_test.lua; --run takes * and ?\n";
  }
  if (code == PolicyExit::LowCoverage) {
    return "moonfence policy test: coverage is below " + std::to_string(options.coverage_min) +
           " %\n  next: write a case for each line and verdict that is named above\n";
  }
  return "";
}

}  // namespace

PolicyOutput test_policies(const PolicyOptions& options, const PolicyGround& ground) {
  const std::string path = options.paths.empty() ? "." : options.paths.front();
  const auto found = test_files(path);
  if (!found) {
    return {.code = PolicyExit::Unusable, .out = "", .err = policy_error_text(found.error())};
  }
  std::vector<FileResult> results;
  for (const std::string& file : *found) {
    results.push_back(run_file(file, options, ground));
  }
  PolicyOutput output{.code = exit_of(results, options)};
  output.out =
      options.json ? policy::json_report(results) : policy::text_report(results, options.coverage);
  output.err = complaint(output.code, options, path);
  if (!options.junit.empty()) {
    const auto written =
        os::write_file(options.junit, policy::junit_report(results, options.coverage_min), true);
    if (!written) {
      output.err += policy_error_text(written.error());
      output.code = PolicyExit::Unusable;
    }
  }
  return output;
}

}  // namespace moonfence::app
