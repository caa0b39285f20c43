#include "policy/cases/own_tests.h"

#include <chrono>
#include <utility>

#include "base/text.h"
#include "policy/cases/coverage.h"
#include "policy/cases/test_run.h"
#include "port/files.h"

namespace moonfence::policy {
namespace {

// Reading a file is one turn of the engine's loop.
constexpr TestLimits kLimits{.cpu = std::chrono::milliseconds(50),
                             .memory_bytes = 8U << 20U,
                             .fixture_bytes = 1U << 20U,
                             .object_bytes = 4U << 20U};

// The keys of the ConfigMap that belong to one policy, as files beside its test.
class KeysAsFiles final : public port::Files {
 public:
  explicit KeysAsFiles(const Candidate& candidate) : candidate_(candidate) {}

  Result<std::string> read(const std::string& path, std::size_t limit) override {
    // The test is at the top, so a fixture that it names by a folder is none of the keys.
    const std::string& name = path;
    for (const std::string& key : {name, candidate_.name + "." + name}) {
      const auto found = candidate_.fixtures.find(key);
      if (found != candidate_.fixtures.end() && found->second.size() <= limit) {
        return found->second;
      }
    }
    return failure(Error::Kind::NotFound,
                   "the ConfigMap has no key '" + escaped(candidate_.name + "." + name, 128) + "'",
                   "add the fixture under that key");
  }
  std::optional<std::string> environment(const std::string& /*name*/) override {
    return std::nullopt;
  }

 private:
  const Candidate& candidate_;
};

Error error_of(const std::string& file, const CaseResult& result) {
  std::string text = file;
  if (result.line > 0) {
    text += ":" + std::to_string(result.line);
  }
  text += ": case '" + result.name + "' did not pass";
  for (const std::string& problem : result.problems) {
    text += "; " + problem;
  }
  return Error{.kind = Error::Kind::Invalid,
               .text = std::move(text),
               .hint = "run `moonfence policy test` before applying"};
}

}  // namespace

OwnTests::OwnTests(const Candidate& candidate, port::CpuClock& clock)
    : candidate_(candidate), clock_(clock), file_(candidate.name + "_test.lua") {}

OwnTests::~OwnTests() = default;

Result<void> OwnTests::read() {
  auto subject = load_subject(candidate_.source, candidate_.name + ".lua", clock_);
  if (!subject) {
    return failure(std::move(subject.error()));
  }
  KeysAsFiles files(candidate_);
  auto tests = read_test_file(*candidate_.test, file_, files, clock_, kLimits);
  if (!tests) {
    return failure(std::move(tests.error()));
  }
  if (tests->cases.empty()) {
    return failure(Error::Kind::Invalid, file_ + ": there is no case in it",
                   "a test that tests nothing proves nothing; add a case or remove the key");
  }
  subject_ = std::move(*subject);
  tests_ = std::move(*tests);
  return {};
}

std::optional<Result<void>> OwnTests::step() {
  if (!tests_) {
    if (auto done = read(); !done) {
      return done;
    }
    return std::nullopt;
  }
  Coverage coverage{.all = subject_->map};
  const CaseResult result = run_case(*subject_, tests_->cases[next_], coverage);
  if (result.state != CaseResult::State::Passed) {
    return failure(error_of(file_, result));
  }
  ++next_;
  return next_ < tests_->cases.size() ? std::nullopt : std::optional(Result<void>());
}

}  // namespace moonfence::policy
