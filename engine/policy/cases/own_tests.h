#pragma once

// OwnTests runs the cases that came with a candidate (NAME_test.lua in the ConfigMap) before it may
// come into force, one case a step, so that the loop is never held longer than one case takes.
// Fixtures are the keys beside it: fixture "down.json" is key "NAME.down.json".

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "policy/cases/test_file.h"
#include "policy/cases/test_subject.h"
#include "policy/host/candidate.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

class OwnTests {
 public:
  // The candidate, which has a test, and the clock must outlive it.
  OwnTests(const Candidate& candidate, port::CpuClock& clock);
  ~OwnTests();
  OwnTests(const OwnTests&) = delete;
  OwnTests& operator=(const OwnTests&) = delete;

  // Reads the files, then one case a call. nullopt: there is more to do. An error is the first case
  // that did not pass, or a file that cannot be used; a file without a case is one, too.
  [[nodiscard]] std::optional<Result<void>> step();

 private:
  [[nodiscard]] Result<void> read();

  const Candidate& candidate_;
  port::CpuClock& clock_;
  std::string file_;  // "db_test.lua"
  std::optional<Subject> subject_;
  std::optional<TestFile> tests_;
  std::size_t next_ = 0;
};

}  // namespace moonfence::policy
