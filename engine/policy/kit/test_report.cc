#include "policy/kit/test_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using State = CaseResult::State;

constexpr std::size_t kNameWidth = 36;
constexpr std::size_t kMostReadsShown = 24;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::int64_t micros(const Usage& usage) {
  return std::chrono::duration_cast<std::chrono::microseconds>(usage.cpu).count();
}

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string cost_of(const CaseResult& result) {
  return result.usage ? right_aligned(std::to_string(micros(*result.usage)), 6) + " us " +
                            right_aligned(std::to_string(result.usage->instructions), 6) + " instr"
                      : "(" + result.outcome + ")";
}

std::string reads_of(const CaseResult& result) {
  std::string text;
  for (std::size_t i = 0; i < std::min(result.reads.size(), kMostReadsShown); ++i) {
    text += (i == 0 ? "        read: " : "\n              ") + result.reads[i].path + "=" +
            result.reads[i].value;
  }
  return text.empty() ? "" : text + "\n";
}

std::string case_text(const CaseResult& result) {
  if (result.state == State::Passed) {
    return "  ok    " + padded(result.name, kNameWidth) + " " + cost_of(result) + "\n";
  }
  std::string text = std::string(result.state == State::Failed ? "  FAIL  " : "  BAD   ") +
                     result.name +
                     (result.line > 0 ? " (line " + std::to_string(result.line) + ")" : "") + "\n";
  for (const std::string& problem : result.problems) {
    text += "        " + problem + "\n";
  }
  return text + reads_of(result);
}

// Those the tool made are many; only what they found is shown.
std::string automatic_text(const FileResult& file) {
  std::size_t passed = 0;
  std::string text;
  for (const CaseResult& result : file.cases) {
    if (!result.automatic) {
      continue;
    }
    if (result.state == State::Passed) {
      ++passed;
    } else {
      text += case_text(result);
    }
  }
  return passed == 0 ? text : "  ok    " + std::to_string(passed) + " automatic cases\n" + text;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : escaped(text, 4096)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml_escaped(value) + "\"";
}

// Seconds with six digits.
std::string seconds_of(const CaseResult& result) {
  const std::int64_t all = result.usage ? micros(*result.usage) : 0;
  std::string fraction = std::to_string(all % 1'000'000);
  fraction.insert(0, 6 - fraction.size(), '0');
  return std::to_string(all / 1'000'000) + "." + fraction;
}

// `failure` is "" for a test that passed.
std::string junit_case(const FileResult& file, const std::string& name, const std::string& more,
                       const std::string& failure) {
  const std::string head =
      "    <testcase" + attribute("name", name) + attribute("classname", file.test_file) + more;
  return failure.empty() ? head + "/>\n"
                         : head + "><failure" + attribute("message", failure) + "/></testcase>\n";
}

std::string_view to_string(State state) {
  switch (state) {
    case State::Passed:
      return "passed";
    case State::Failed:
      return "failed";
    case State::Malformed:
      return "malformed";
  }
  return "";
}

json sites_json(const std::set<VerdictSite>& sites) {
  json list = json::array();
  for (const VerdictSite& site : sites) {
    list.push_back({{"line", site.line}, {"verdict", site.name}});
  }
  return list;
}

json case_json(const CaseResult& result) {
  json object = {{"name", result.name},           {"line", result.line},
                 {"automatic", result.automatic}, {"state", to_string(result.state)},
                 {"outcome", result.outcome},     {"problems", result.problems}};
  if (result.usage) {
    object["instructions"] = result.usage->instructions;
    object["microseconds"] = micros(*result.usage);
  }
  return object;
}

json coverage_json(const Coverage& coverage) {
  return {{"lines", coverage.lines},
          {"linesTotal", coverage.all.lines},
          {"verdicts", sites_json(coverage.verdicts)},
          {"verdictsTotal", sites_json(coverage.all.verdicts)}};
}

}  // namespace

Totals totals_of(const std::vector<FileResult>& files) {
  Totals totals;
  for (const FileResult& file : files) {
    totals.broken += file.broken.empty() ? 0U : 1U;
    for (const CaseResult& result : file.cases) {
      totals.passed += result.state == State::Passed ? 1U : 0U;
      totals.failed += result.state == State::Passed ? 0U : 1U;
      totals.malformed += result.state == State::Malformed ? 1U : 0U;
    }
  }
  totals.failed += totals.broken;
  return totals;
}

std::string text_report(const std::vector<FileResult>& files, bool coverage) {
  std::string text;
  for (const FileResult& file : files) {
    text += file.test_file + "\n";
    if (!file.broken.empty()) {
      text += "  BAD   " + file.broken + "\n";
      continue;
    }
    for (const CaseResult& result : file.cases) {
      text += result.automatic ? "" : case_text(result);
    }
    text += automatic_text(file);
    if (coverage) {
      text += file.policy_file + "  coverage: " + file.coverage.text() + "\n";
    }
  }
  const Totals totals = totals_of(files);
  return text + std::to_string(totals.passed) + " passed, " + std::to_string(totals.failed) +
         " failed\n";
}

std::string junit_report(const std::vector<FileResult>& files, unsigned coverage_min) {
  std::string suites;
  std::size_t tests = 0;
  std::size_t failures = 0;
  for (const FileResult& file : files) {
    const Totals own = totals_of({file});
    const bool measured = coverage_min > 0 && !file.cases.empty();
    const bool covered = file.coverage.reaches(coverage_min);
    const std::size_t own_tests = own.passed + own.failed + (measured ? 1U : 0U);
    const std::size_t own_failures = own.failed + (measured && !covered ? 1U : 0U);
    suites += "  <testsuite" + attribute("name", file.test_file) +
              attribute("tests", std::to_string(own_tests)) +
              attribute("failures", std::to_string(own_failures)) + ">\n";
    if (!file.broken.empty()) {
      suites += junit_case(file, "load", "", file.broken);
    }
    for (const CaseResult& result : file.cases) {
      suites += junit_case(file, result.name, attribute("time", seconds_of(result)),
                           result.state == State::Passed ? "" : joined(result.problems, "; "));
    }
    if (measured) {
      suites += junit_case(file, "coverage of " + std::to_string(coverage_min) + " %", "",
                           covered ? "" : file.coverage.text());
    }
    suites += "  </testsuite>\n";
    tests += own_tests;
    failures += own_failures;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         attribute("tests", std::to_string(tests)) +
         attribute("failures", std::to_string(failures)) + ">\n" + suites + "</testsuites>\n";
}

std::string json_report(const std::vector<FileResult>& files) {
  const Totals totals = totals_of(files);
  json list = json::array();
  for (const FileResult& file : files) {
    json cases = json::array();
    for (const CaseResult& result : file.cases) {
      cases.push_back(case_json(result));
    }
    list.push_back({{"file", file.test_file},
                    {"policy", file.policy_file},
                    {"broken", file.broken},
                    {"cases", std::move(cases)},
                    {"coverage", coverage_json(file.coverage)}});
  }
  return kube::to_text(
             {{"passed", totals.passed}, {"failed", totals.failed}, {"files", std::move(list)}}) +
         "\n";
}

}  // namespace moonfence::policy
