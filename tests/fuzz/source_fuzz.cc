// Bytes as the text of a policy, as they stand: the compiler and the loader against anything. A
// text that declares no policy becomes the body of a pod function. Seeds: tests/hostile.

#include <cstdint>
#include <string>
#include <utility>

#include "fuzz/policy_oracle.h"
#include "support/policies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moonfence;  // NOLINT(google-build-using-namespace): libFuzzer's C name
  std::string source(data, data + size);
  if (source.find("policy") == std::string::npos) {
    source = policy_text(source);
  }
  auto limits = fuzz::patient_limits();
  limits.instructions = 50'000;
  fuzz::Candidate candidate{.repeats = fuzz::repeats_of(source), .limits = limits};
  candidate.spelled_out = source.find('\\') == std::string::npos;
  candidate.source = std::move(source);
  fuzz::judge(candidate);
  return 0;
}
