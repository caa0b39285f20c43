#pragma once

// A Program is a policy's text with what running it takes.

#include <memory>
#include <string>

#include <lua.hpp>
#include <nlohmann/json.hpp>

#include "policy/host/policy.h"
#include "policy/values/facts.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Trace;

// A chunk as our own compiler left it, which loads in a fresh state without being compiled again:
// compiling was most of what a decision cost. Lua trusts the bytes that it loads, so there is no
// way to make one of bytes that came from elsewhere.
class Compiled {
 public:
  Compiled() = default;
  // Of the function on top, fresh from compile(); raises when it cannot be dumped. Lines and names
  // are kept, so that an error reads as the text's own.
  [[nodiscard]] static Compiled of_top(lua_State* lua);

  // Pushes the function; raises when memory runs out, or when there is none.
  void push(lua_State* lua, const std::string& file) const;

 private:
  std::string bytes_;
};

struct Program {
  std::string source;
  Compiled compiled;  // the source, once it was scanned
  std::string file;   // as messages show it
  Limits limits;
  port::CpuClock* clock = nullptr;
  std::shared_ptr<const nlohmann::json> settings;  // in force
  Needs needs;
  bool fetches = false;
  bool node_fetches = false;
  Trace* trace = nullptr;  // tools: what every run does is noted here
};

// Compiles the source and pushes it; raises when it does not compile.
void compile(lua_State* lua, const Program& program);
// Runs the chunk on top, which declares the policy, and empties the stack; raises when it returns
// anything but what policy{} returned.
void run_declaration(lua_State* lua, const Program& program);

}  // namespace moonfence::policy
