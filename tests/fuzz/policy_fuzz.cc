// Policies of a grammar, run as the engine runs them. See fuzz/policy_oracle.h for what must hold.

#include <array>
#include <cstdint>
#include <utility>

#include "fuzz/choices.h"
#include "fuzz/policy_oracle.h"
#include "fuzz/program_grammar.h"

namespace moonfence::fuzz {
namespace {

// Smaller budgets find the same paths in less time, and end programs in the middle of things.
policy::Limits limits_of(Choices& choices) {
  constexpr std::array<std::uint64_t, 4> kInstructions = {50'000, 50'000, 5'000, 1'000'000};
  constexpr std::array<std::size_t, 4> kMemory = {4U << 20U, 4U << 20U, 4U << 20U, 96U << 10U};
  policy::Limits limits = patient_limits();
  limits.instructions = choices.of(kInstructions);
  limits.memory_bytes = choices.of(kMemory);
  return limits;
}

}  // namespace
}  // namespace moonfence::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moonfence::fuzz;  // NOLINT(google-build-using-namespace): libFuzzer's C name
  Choices choices(data, size);
  const auto limits = limits_of(choices);
  Program program = random_program(choices);
  judge({.source = std::move(program.source),
         .repeats = program.repeats,
         .settings = std::move(program.settings),
         .limits = limits});
  return 0;
}
