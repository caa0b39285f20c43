#pragma once

// What a test run says: text for people, JUnit XML and JSON for machines. The last line of the text
// is `N passed, N failed` alone.

#include <string>
#include <vector>

#include "policy/cases/test_run.h"

namespace moonfence::policy {

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;  // malformed ones count too
  std::size_t malformed = 0;
  std::size_t broken = 0;  // files of which nothing could run
};

[[nodiscard]] Totals totals_of(const std::vector<FileResult>& files);

[[nodiscard]] std::string text_report(const std::vector<FileResult>& files, bool coverage);
// With a minimum of coverage, in percent, each file has one more test for it.
[[nodiscard]] std::string junit_report(const std::vector<FileResult>& files,
                                       unsigned coverage_min = 0);
// {"passed": N, "failed": N, "files": [{"file", "policy", "broken", "cases": [...], "coverage"}]}
[[nodiscard]] std::string json_report(const std::vector<FileResult>& files);

}  // namespace moonfence::policy
