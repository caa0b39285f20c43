#pragma once

// What the compiler made of a chunk, taken apart for the static scan. It follows the dump format
// and the instruction set of Lua 5.4 and reads only what our own lua_dump has just written;
// lua_self_test() pins it to the library that is linked.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lua.hpp>

namespace moonfence::policy {

// The instructions the scan looks at; their numbers are those of lopcodes.h.
enum class Opcode : std::uint8_t {
  GetUpvalue = 9,  // R[A] := upvalue[B]
  GetTabUp = 11,   // R[A] := upvalue[B][K[C]]
  GetField = 14,   // R[A] := R[B][K[C]]
  SetTabUp = 15,   // upvalue[A][K[B]] := RK(C)
  SetField = 18,   // R[A][K[B]] := RK(C)
  Self = 20,       // R[A+1] := R[B]; R[A] := R[B][RK(C)]
  Jump = 56,       // the next instruction is sJ further
};

struct Instruction {
  std::uint32_t word = 0;
  int line = 0;

  [[nodiscard]] bool is(Opcode opcode) const {
    return (word & 0x7FU) == static_cast<std::uint32_t>(opcode);
  }
  [[nodiscard]] std::uint8_t a() const { return static_cast<std::uint8_t>(word >> 7U); }
  [[nodiscard]] bool k() const { return ((word >> 15U) & 1U) != 0; }
  [[nodiscard]] std::uint8_t b() const { return static_cast<std::uint8_t>(word >> 16U); }
  [[nodiscard]] std::uint8_t c() const { return static_cast<std::uint8_t>(word >> 24U); }
  [[nodiscard]] std::int64_t jump() const {
    constexpr std::int64_t kZero = (1 << 24) - 1;
    return static_cast<std::int64_t>(word >> 7U) - kZero;
  }
};

struct Prototype {
  struct Upvalue {
    bool in_stack = false;   // a register of the enclosing function, else one of its upvalues
    std::uint8_t index = 0;  // which
  };
  int line = 0;  // where the function begins; 0 for the file
  std::uint8_t parameter_count = 0;
  std::vector<Instruction> code;
  std::vector<std::optional<std::string>> constants;  // nullopt for what is no text
  std::vector<Upvalue> upvalues;
  std::vector<Prototype> inner;
  std::vector<std::string> locals;  // in the order they come into scope; parameters are the first
};

// The function on top of the stack; nullopt when the dump is of another format.
[[nodiscard]] std::optional<Prototype> disassemble(lua_State* lua);

}  // namespace moonfence::policy
