#pragma once

#include <string>
#include <vector>

#include "policy/declaration.h"
#include "policy/policy.h"
#include "policy/program.h"

namespace moonfence::policy {

struct Policy::State {
  Declaration declaration;
  Program program;
  std::string source_digest;
  std::string digest;
  std::vector<std::string> notices;
  std::vector<std::string> warnings;
  bool guard = false;
  bool acts = false;
};

}  // namespace moonfence::policy
