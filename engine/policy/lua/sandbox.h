#pragma once

// Sandbox owns one Lua state and bounds what runs in it: instructions (a count hook, to which host
// functions and the allocator add the work they do), memory (an allocator that counts) and CPU
// time. A state serves one evaluation and is destroyed where it was made; it is never pooled,
// because what a script leaves behind would reach the next one. Nothing in it can outlive the
// Sandbox.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lua.hpp>

#include "base/result.h"
#include "policy/lua/block_pool.h"
#include "policy/values/facts.h"
#include "policy/values/limits.h"
#include "policy/values/request.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct Declaration;
struct Inputs;
struct TestSession;
struct Trace;

// Which function of the policy is running: verdicts and requests are made in their own ones only.
enum class Hook { None, Pod, Node, NodeFetch, Fetch, Plan, Nodes, Power, Off };

// What host functions need to know about the run they are part of.
struct Session {
  Declaration* declaration = nullptr;  // filled by policy{} while loading, null while deciding
  std::shared_ptr<const Inputs> inputs;
  bool declared = false;  // policy{} was called
  Hook hook = Hook::None;
  Duration prepared{};            // CPU time when the hook began, zero before
  Needs needs;                    // what the policy declared: which fields may be read
  bool fetches = false;           // and whether it has a fetch function
  bool node_fetches = false;      // and a node_fetch function
  std::vector<Request> requests;  // those made in this run; scripts hold their positions
  std::vector<std::string> log;
  std::uint64_t log_dropped = 0;
  TestSession* tests = nullptr;  // while a file of test cases is read
  Trace* trace = nullptr;        // null: nobody wants to know
};

class Sandbox {
 public:
  // Both outlive the sandbox. `file` stands in messages that have no line.
  Sandbox(port::CpuClock& clock, const Limits& limits, std::string file);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // The sandbox a state belongs to.
  [[nodiscard]] static Sandbox& of(lua_State* lua);

  // Calls body(lua, context) in protected mode; everything that can raise happens inside. An error
  // of Kind Limit names the bound that was hit and both figures.
  [[nodiscard]] Result<void> run(void (*body)(lua_State* lua, void* context), void* context);

  // Raises a Lua error when the budget cannot pay for `units` of work. One unit is about what one
  // Lua instruction costs.
  void charge(lua_State* lua, std::uint64_t units);
  void charge_bytes(lua_State* lua, std::size_t bytes) { charge(lua, bytes / kBytesPerUnit); }
  // For buffers outside of Lua's memory: they count as if they were in it.
  void require_room(lua_State* lua, std::size_t bytes);
  // Fails a compilation that took longer than the limit allows.
  void check_compile_time(lua_State* lua, Duration started);
  // From now on every line that runs is noted in the session's trace, and every read.
  void start_trace(Trace& trace);

  [[nodiscard]] Duration cpu_used() const { return clock_.thread_time() - started_; }
  [[nodiscard]] Usage usage() const;
  [[nodiscard]] const std::string& file() const { return file_; }
  Session session;

  static constexpr std::size_t kBytesPerUnit = 64;

 private:
  enum class Stop { None, Instructions, Memory, Cpu };

  static void* allocate(void* self, void* block, std::size_t old_size, std::size_t new_size);
  static void on_count(lua_State* lua, lua_Debug* activation);
  static int on_panic(lua_State* lua);
  void check_budget(lua_State* lua);
  [[noreturn]] void stop(lua_State* lua, Stop why);
  [[nodiscard]] std::string stop_text(Stop why) const;
  [[nodiscard]] Error error_on_top(int status);

  port::CpuClock& clock_;
  const Limits limits_;
  const std::string file_;
  const Duration started_;
  std::uint64_t instructions_ = 0;
  std::size_t memory_ = 0;
  std::size_t memory_peak_ = 0;
  std::size_t memory_asked_ = 0;  // the request that was refused last
  Stop stopped_ = Stop::None;
  BlockPool blocks_;  // outlives the state
  lua_State* lua_ = nullptr;
};

}  // namespace moonfence::policy
