#pragma once

// What must hold for every policy text there is, checked on the way the engine takes: load, then
// evaluate. A text that breaks a rule is printed and ends the program, which libFuzzer reports.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "policy/host/policy.h"

namespace moonfence::fuzz {

// What two runs of a program must have in common. Lua walks a script's own table in another order
// in each state.
enum class Repeats {
  Exactly,  // verdict, log lines and cost
  // It sorts keys of a table, and how many comparisons that takes depends on their order; or it
  // empties fields, and when a table then grows depends on where they were.
  AtOtherCost,
  Nothing,  // it may walk a table of its own
};

struct Candidate {
  std::string source;
  Repeats repeats = Repeats::Exactly;
  nlohmann::json settings = nullptr;  // what a binding sets; null: nothing
  policy::Limits limits = {};
  // Whether a verdict's name can only stand in it as it is, not spelled with escapes.
  bool spelled_out = true;
};

// The engine's limits, but for the times: the sanitizers make our own code several times slower.
[[nodiscard]] policy::Limits patient_limits();

// By what the text names.
[[nodiscard]] Repeats repeats_of(const std::string& source);

// Loads and evaluates; counts what became of it. The counts are printed when the program ends.
void judge(const Candidate& candidate);

}  // namespace moonfence::fuzz
