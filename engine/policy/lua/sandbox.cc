#include "policy/lua/sandbox.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "policy/lua/trace.h"

namespace moonfence::policy {
namespace {

constexpr int kHookInterval = 200;
constexpr std::size_t kLongestError = 1024;

struct Protected {
  void (*body)(lua_State* lua, void* context);
  void* context;
};

// The only way into the state. A C++ exception must not pass through Lua: its C++ build would catch
// it and leave a wrong value as the error, so it becomes a Lua error here. Lua's own exceptions are
// not std::exceptions and pass.
int run_protected(lua_State* lua) {
  const auto* job = static_cast<const Protected*>(lua_touserdata(lua, 1));
  lua_settop(lua, 0);
  std::string what;
  try {
    job->body(lua, job->context);
    return 0;
  } catch (const std::exception& thrown) {
    what = thrown.what();
  }
  return luaL_error(lua, "internal error: %s", what.c_str());
}

}  // namespace

Sandbox::Sandbox(port::CpuClock& clock, const Limits& limits, std::string file)
    : clock_(clock), limits_(limits), file_(std::move(file)), started_(clock.thread_time()) {
  lua_ = lua_newstate(&Sandbox::allocate, this);
  if (lua_ == nullptr) {
    return;
  }
  *static_cast<Sandbox**>(lua_getextraspace(lua_)) = this;
  lua_atpanic(lua_, &Sandbox::on_panic);
  lua_sethook(lua_, &Sandbox::on_count, LUA_MASKCOUNT, kHookInterval);
}

Sandbox::~Sandbox() {
  if (lua_ != nullptr) {
    lua_close(lua_);
  }
}

Sandbox& Sandbox::of(lua_State* lua) {
  return **static_cast<Sandbox**>(lua_getextraspace(lua));
}

Result<void> Sandbox::run(void (*body)(lua_State*, void*), void* context) {
  if (lua_ == nullptr) {
    return failure(Error::Kind::Limit, file_ + ": " + stop_text(Stop::Memory));
  }
  Protected job{.body = body, .context = context};
  lua_pushcfunction(lua_, run_protected);
  lua_pushlightuserdata(lua_, &job);
  const int status = lua_pcall(lua_, 1, 0, 0);
  if (status == LUA_OK) {
    return {};
  }
  return failure(error_on_top(status));
}

void Sandbox::charge(lua_State* lua, std::uint64_t units) {
  if (__builtin_add_overflow(instructions_, units, &instructions_)) {
    instructions_ = UINT64_MAX;
  }
  if (instructions_ > limits_.instructions) {
    stop(lua, Stop::Instructions);
  }
}

void Sandbox::require_room(lua_State* lua, std::size_t bytes) {
  if (bytes > limits_.memory_bytes - memory_) {
    memory_asked_ = bytes;
    stop(lua, Stop::Memory);
  }
}

void Sandbox::check_compile_time(lua_State* lua, Duration started) {
  const Duration spent = clock_.thread_time() - started;
  if (spent > limits_.compile_cpu) {
    stopped_ = Stop::Cpu;
    const std::string text = "compiling took " +
                             format_duration(std::chrono::floor<std::chrono::milliseconds>(spent)) +
                             " of " + format_duration(limits_.compile_cpu) + " CPU time";
    luaL_error(lua, "%s: %s", file_.c_str(), text.c_str());
  }
}

Usage Sandbox::usage() const {
  const Duration cpu = cpu_used();
  return Usage{.instructions = instructions_,
               .memory_bytes = memory_peak_,
               .cpu = cpu,
               .deciding = session.hook == Hook::None ? Duration() : cpu - session.prepared};
}

// For a new block old_size is a type tag, not a size.
void* Sandbox::allocate(void* self, void* block, std::size_t old_size, std::size_t new_size) {
  auto& sandbox = *static_cast<Sandbox*>(self);
  const std::size_t held = block == nullptr ? 0 : old_size;
  if (new_size == 0) {
    sandbox.blocks_.release(block, held);
    sandbox.memory_ -= held;
    return nullptr;
  }
  if (new_size > held) {
    if (new_size - held > sandbox.limits_.memory_bytes - sandbox.memory_) {
      sandbox.memory_asked_ = new_size - held;
      return nullptr;
    }
    // Large allocations are work (the copy that fills them); the next count hook collects the debt.
    // Without it a loop that joins a long string costs milliseconds an instruction.
    sandbox.instructions_ += new_size / kBytesPerUnit;
  }
  void* const moved = sandbox.blocks_.resize(block, held, new_size);
  if (moved != nullptr) {
    sandbox.memory_ = sandbox.memory_ - held + new_size;
    sandbox.memory_peak_ = std::max(sandbox.memory_peak_, sandbox.memory_);
  }
  return moved;
}

void Sandbox::start_trace(Trace& trace) {
  session.trace = &trace;
  trace.paths.clear();
  trace.verdicts.clear();
  if (lua_ != nullptr) {
    lua_sethook(lua_, &Sandbox::on_count, LUA_MASKCOUNT | LUA_MASKLINE, kHookInterval);
  }
}

void Sandbox::on_count(lua_State* lua, lua_Debug* activation) {
  Sandbox& sandbox = of(lua);
  if (activation->event == LUA_HOOKLINE) {
    sandbox.session.trace->lines.insert(activation->currentline);
    return;
  }
  if (sandbox.stopped_ == Stop::None) {
    sandbox.instructions_ += kHookInterval;
  }
  sandbox.check_budget(lua);
}

int Sandbox::on_panic(lua_State*) {
  check_failed("Lua raised an error outside of a protected call", __FILE__, __LINE__);
}

void Sandbox::check_budget(lua_State* lua) {
  if (stopped_ != Stop::None) {
    stop(lua, stopped_);
  }
  if (instructions_ > limits_.instructions) {
    stop(lua, Stop::Instructions);
  }
  if (cpu_used() > limits_.cpu) {
    stop(lua, Stop::Cpu);
  }
}

// From here on the hook fires at every instruction, so that nothing else runs.
void Sandbox::stop(lua_State* lua, Stop why) {
  stopped_ = why;
  lua_sethook(lua, &Sandbox::on_count, LUA_MASKCOUNT, 1);
  // In the hook the script's function is level 0, in a host function level 1.
  luaL_where(lua, 0);
  if (lua_rawlen(lua, -1) == 0) {
    luaL_where(lua, 1);
  }
  const std::string text = stop_text(why);
  lua_pushlstring(lua, text.data(), text.size());
  lua_concat(lua, 2);
  lua_error(lua);
  std::abort();  // lua_error does not return
}

std::string Sandbox::stop_text(Stop why) const {
  switch (why) {
    case Stop::None:
      return "";
    case Stop::Instructions:
      return "instruction limit: used " + std::to_string(instructions_) + " of " +
             std::to_string(limits_.instructions) + " instructions";
    case Stop::Memory:
      return "memory limit: used " + std::to_string(memory_) + " of " +
             std::to_string(limits_.memory_bytes) + " bytes and asked for " +
             std::to_string(memory_asked_) + " more";
    case Stop::Cpu:
      return "CPU limit: used " +
             format_duration(std::chrono::floor<std::chrono::milliseconds>(cpu_used())) + " of " +
             format_duration(limits_.cpu) + " CPU time";
  }
  return "";
}

// Reads the error value without anything that can raise: it may be of any type.
Error Sandbox::error_on_top(int status) {
  Error error;
  error.kind = stopped_ == Stop::None ? Error::Kind::Invalid : Error::Kind::Limit;
  if (status == LUA_ERRMEM) {
    error.kind = Error::Kind::Limit;
    error.text = file_ + ": " + stop_text(Stop::Memory);
  } else if (lua_type(lua_, -1) == LUA_TSTRING) {
    std::size_t size = 0;
    const char* text = lua_tolstring(lua_, -1, &size);
    error.text = escaped({text, size}, kLongestError - 3);
    if (!error.text.starts_with(file_)) {
      error.text = file_ + ": " + error.text;
    }
  } else {
    error.text = file_ + ": the script raised a " + lua_typename(lua_, lua_type(lua_, -1)) +
                 " value as its error; raise a text";
  }
  lua_settop(lua_, 0);
  return error;
}

}  // namespace moonfence::policy
