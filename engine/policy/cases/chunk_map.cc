#include "policy/cases/chunk_map.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <lua.hpp>

#include "base/text.h"
#include "policy/lua/bytecode.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

static_assert(LUA_VERSION_NUM == 504, "the layout of bytecode below is Lua 5.4's");

// Instructions of Lua 5.4 that leave the straight way.
constexpr std::uint32_t kLoadFalseSkip = 6;
constexpr std::uint32_t kJump = 56;
constexpr std::uint32_t kFirstTest = 57;  // EQ ... TESTSET: run or skip the next instruction
constexpr std::uint32_t kLastTest = 67;
constexpr std::uint32_t kTailCall = 69;
constexpr std::uint32_t kLastReturn = 72;
constexpr std::uint32_t kForLoop = 73;
constexpr std::uint32_t kForPrepare = 74;
constexpr std::uint32_t kGenericPrepare = 75;
constexpr std::uint32_t kGenericLoop = 77;
constexpr std::uint32_t kVarargPrepare = 81;

std::uint32_t operation_of(std::uint32_t word) {
  return word & 0x7FU;
}
std::uint32_t wide_argument(std::uint32_t code) {
  return code >> 15U;
}
std::int64_t jump_distance(std::uint32_t code) {
  return static_cast<std::int64_t>(code >> 7U) - ((1 << 24) - 1);
}

// Where the program can go from an instruction.
std::vector<std::int64_t> successors(std::uint32_t code, std::int64_t at) {
  const std::int64_t next = at + 1;
  const std::uint32_t operation = operation_of(code);
  if (operation >= kFirstTest && operation <= kLastTest) {
    return {next, next + 1};
  }
  if (operation >= kTailCall && operation <= kLastReturn) {
    return {};
  }
  switch (operation) {
    case kLoadFalseSkip:
      return {next + 1};
    case kJump:
      return {next + jump_distance(code)};
    case kForLoop:
    case kGenericLoop:
      return {next, next - wide_argument(code)};
    case kForPrepare:
      return {next, next + wide_argument(code) + 1};
    case kGenericPrepare:
      return {next + wide_argument(code)};
    default:
      return {next};
  }
}

std::vector<bool> reachable(const Prototype& function) {
  std::vector<bool> seen(function.code.size(), false);
  std::vector<std::int64_t> ahead = {0};
  while (!ahead.empty()) {
    const std::int64_t at = ahead.back();
    ahead.pop_back();
    if (at < 0 || static_cast<std::size_t>(at) >= seen.size() ||
        seen[static_cast<std::size_t>(at)]) {
      continue;
    }
    seen[static_cast<std::size_t>(at)] = true;
    for (const std::int64_t next :
         successors(function.code[static_cast<std::size_t>(at)].word, at)) {
      ahead.push_back(next);
    }
  }
  return seen;
}

bool makes(std::string_view result, std::string_view name) {
  const auto functions = fence_library().functions;
  return std::any_of(functions.begin(), functions.end(), [&](const HostFunction& function) {
    return function.name == name && std::string_view(function.signature).ends_with(result);
  });
}

const std::string* text_constant(const Prototype& function, std::size_t index) {
  const bool is_text = index < function.constants.size() && function.constants[index];
  return is_text ? &*function.constants[index] : nullptr;
}

void add_function(const Prototype& function, ChunkMap& map) {
  const std::vector<bool> runs = reachable(function);
  for (std::size_t i = 0; i < function.code.size(); ++i) {
    const Instruction& instruction = function.code[i];
    // Lua's hooks begin after the one that prepares varargs.
    if (!runs[i] || operation_of(instruction.word) == kVarargPrepare) {
      continue;
    }
    map.lines.insert(instruction.line);
    if (!instruction.is(Opcode::GetTabUp) || i + 1 == function.code.size() ||
        !function.code[i + 1].is(Opcode::GetField)) {
      continue;
    }
    const std::string* global = text_constant(function, instruction.c());
    const std::string* field = text_constant(function, function.code[i + 1].c());
    if (global == nullptr || *global != "fence" || field == nullptr) {
      continue;
    }
    const VerdictSite site = {.line = function.code[i + 1].line, .name = *field};
    if (makes("Verdict", *field)) {
      map.verdicts.insert(site);
    } else if (makes("Request", *field)) {
      map.requests.try_emplace(site.line);
    }
  }
  for (const Prototype& inner : function.inner) {
    add_function(inner, map);
  }
}

struct Job {
  const std::string& source;
  const std::string& chunk_name;
  std::optional<Prototype> main;
};

void compile_and_read(lua_State* lua, void* context) {
  Job& job = *static_cast<Job*>(context);
  if (luaL_loadbufferx(lua, job.source.data(), job.source.size(), job.chunk_name.c_str(), "t") !=
      LUA_OK) {
    lua_error(lua);
  }
  job.main = disassemble(lua);
}

}  // namespace

Result<ChunkMap> map_chunk(const std::string& source, const std::string& file,
                           port::CpuClock& clock) {
  Sandbox sandbox(clock, {}, file);
  const std::string chunk_name = "@" + file;
  Job job{.source = source, .chunk_name = chunk_name, .main = {}};
  if (auto compiled = sandbox.run(compile_and_read, &job); !compiled) {
    return failure(std::move(compiled.error()));
  }
  if (!job.main) {
    return failure(Error::Kind::Invalid, file + ": the bytecode of this Lua cannot be read",
                   "report the version of liblua5.4-c++");
  }
  ChunkMap map;
  add_function(*job.main, map);
  const std::vector<std::string_view> lines = split(source, '\n');
  for (auto& [line, text] : map.requests) {
    const auto index = static_cast<std::size_t>(line) - 1;
    text = index < lines.size() ? std::string(trimmed(lines[index])) : "";
  }
  return map;
}

}  // namespace moonfence::policy
