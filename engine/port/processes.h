#pragma once

// Child processes: kubeconfig exec plugins and nothing else.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace moonfence::port {

struct Command {
  std::string program;  // looked up in PATH unless it contains a slash
  std::vector<std::string> arguments;
  // Added to (and replacing in) the inherited environment.
  std::vector<std::pair<std::string, std::string>> environment;
  Duration timeout = std::chrono::seconds(30);  // then its whole process group is killed
  std::size_t output_limit = 1U << 20U;         // more is an error
};

struct ProcessOutput {
  int exit_code = 0;  // 128 + n when it died of signal n
  std::string out;
  std::string err;
};

// Destroying it kills the process group and nothing more is heard of it.
class Process {
 public:
  virtual ~Process() = default;
};

class Processes {
 public:
  using Done = std::function<void(Result<ProcessOutput>)>;
  virtual ~Processes() = default;
  // Standard input is closed. `done` is called once, in a later turn.
  [[nodiscard]] virtual std::unique_ptr<Process> start(Command command, Done done) = 0;
};

}  // namespace moonfence::port
