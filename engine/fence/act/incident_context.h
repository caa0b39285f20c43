#pragma once

// What whoever acts for an incident needs beside its surroundings.

#include "fence/act/guarded_call.h"
#include "fence/read/surroundings.h"

namespace moonfence::fence {

struct Preplannings;

struct IncidentContext : Surroundings {
  GuardedCall& actions;
  Preplannings* preplannings = nullptr;  // null: a pass reads nothing before it begins
};

}  // namespace moonfence::fence
