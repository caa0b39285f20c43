#pragma once

// Policy files at random: valid and harmless-looking in the main, with a low rate of whatever a
// script might try. Most of them load and decide, so that what lies behind is reached.

#include <string>

#include <nlohmann/json.hpp>

#include "fuzz/choices.h"
#include "fuzz/policy_oracle.h"

namespace moonfence::fuzz {

struct Program {
  std::string source;
  Repeats repeats = Repeats::Exactly;
  nlohmann::json settings = {};  // of a binding
};

[[nodiscard]] Program random_program(Choices& choices);

}  // namespace moonfence::fuzz
