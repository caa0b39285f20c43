#pragma once

// A look at a policy's compiled text without running it: what it names that does not exist, and
// what is allowed but hardly meant. It sees every place, also those that only some pods reach.

#include <set>
#include <string>
#include <vector>

#include <lua.hpp>

#include "base/result.h"
#include "policy/host/declaration.h"
#include "policy/lua/views.h"

namespace moonfence::policy {

// Something in the text, where it stands.
struct Finding {
  int line = 0;
  std::string text;
};

struct Scan {
  std::vector<Finding> errors;  // "unknown global 'fnce' (did you mean 'fence'?)"
  std::vector<Finding> warnings;
  bool forbids = false;        // names "forbid": the policy is a guard
  bool holds = false;          // names "hold": so it is, if that cannot be about the node
  bool demands_proof = false;  // names "proof": likewise a guard
  bool acts = false;           // names a verdict that does something to a pod or a node

  // Fields of `pod` and `node` that have to be declared, where they are read.
  struct Use {
    std::string field;  // "pod.volumes"
    Need need = Need::None;
    int line = 0;
  };
  std::vector<Use> uses;
  std::vector<Finding> settings;  // names that are read of `s` or `settings`
  std::set<std::string> members;  // every name that is read of anything
};

// Scans the function on top of the stack, which must be fresh from the compiler: its bytecode is
// trusted. Raises only when memory runs out.
[[nodiscard]] Scan scan_chunk(lua_State* lua);

// Adds what can be said once it is known what the policy declares: needs that are missing, needs
// settings that nothing reads or nobody declares.
void compare_with(const Declaration& declaration, Scan& scan);

// "noobaa.lua:7: ...", by line.
[[nodiscard]] std::vector<std::string> texts_of(std::vector<Finding> findings,
                                                const std::string& file);

// Raises the first error, if any.
void raise_first(lua_State* lua, const Scan& scan, const std::string& file);

// Whether the scan understands what the linked Lua compiles.
[[nodiscard]] Result<void> test_scan();

}  // namespace moonfence::policy
