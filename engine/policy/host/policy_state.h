#pragma once

#include <string>
#include <vector>

#include "policy/host/declaration.h"
#include "policy/host/policy.h"
#include "policy/host/program.h"

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
