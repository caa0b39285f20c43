#pragma once

// A Program is a policy's text with what running it takes.

#include <memory>
#include <string>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "policy/facts.h"
#include "policy/policy.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Trace;

struct Program {
  std::string source;
  std::string file;  // as messages show it
  Limits limits;
  port::CpuClock* clock = nullptr;
  std::shared_ptr<const nlohmann::json> settings;  // in force
  Needs needs;
  bool fetches = false;
  Trace* trace = nullptr;  // tools: what every run does is noted here
};

// Pushes the compiled chunk; raises when it does not compile.
void compile(lua_State* lua, const Program& program);
// Runs the chunk on top, which declares the policy, and empties the stack; raises when it returns
// anything but what policy{} returned.
void run_declaration(lua_State* lua, const Program& program);

}  // namespace moonfence::policy
