#pragma once

// A replica of the engine as the simulated world sees it. The engine is the product's own code
// (app::Engine); what it is given here stands where engine/os stands in production. app hands the
// world a factory, because sim must not know app.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loop/loop.h"
#include "port/cpu_clock.h"
#include "port/files.h"
#include "port/http.h"
#include "port/links.h"
#include "port/log.h"
#include "port/processes.h"
#include "port/random.h"
#include "port/wall_clock.h"

namespace moonfence::sim {

struct ReplicaSurroundings {
  loop::Loop& loop;
  port::Http& http;
  port::Links& links;
  port::Files& files;
  port::Processes& processes;
  port::WallClock& wall_clock;
  port::CpuClock& cpu_clock;
  port::Random& random;
  port::Log& log;
  // One audit record, a JSON line without its newline. What was appended outlives a crash.
  std::function<Result<void>(std::string_view line)> append_audit;
  std::string name;     // its pod's name: "moonfence-0"
  std::string server;   // "http://api-0.sim"
  std::string node;     // on which it sits; "" not known
  std::string address;  // where the others reach it: "10.255.0.1:8081"
};

// Destroying it is the crash: nothing is said, nothing is sent any more.
class Replica {
 public:
  virtual ~Replica() = default;
  virtual void start() = 0;
  // SIGTERM: finish what has left, then call `left`.
  virtual void drain(std::function<void()> left) = 0;
  // What it answers to another one that asks for that path at that moment; nullopt: nothing.
  [[nodiscard]] virtual std::optional<std::string> answer(std::string_view /*path*/,
                                                          Moment /*now*/) {
    return std::nullopt;
  }
};

using ReplicaFactory = std::function<std::unique_ptr<Replica>(const ReplicaSurroundings&)>;

}  // namespace moonfence::sim
