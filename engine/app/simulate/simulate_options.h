#pragma once

// The command line of `moonfence simulate`, as values.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace moonfence::app {

struct SimulateOptions {
  std::string scenario = "node-loss";  // a built-in one, or a file
  std::string policies;                // a folder: the ConfigMap's data
  std::string config;                  // a file: the engine's configuration
  std::string responses;               // a file: what endpoints answer
  std::vector<std::string> set;        // "key=value"
  std::string speed;                   // "max", "10"; "" decides by the terminal
  std::optional<std::uint64_t> seed;
  bool json = false;
  bool list = false;
};

void add_simulate(CLI::App& app, SimulateOptions& options);

// What the parser cannot see; "" when all is well.
[[nodiscard]] std::string problem_of(const SimulateOptions& options);

// "db=pod" cut at its first '='.
[[nodiscard]] std::pair<std::string, std::string> key_and_value(const std::string& text);

// Virtual seconds per real second; nullopt: as fast as possible.
[[nodiscard]] std::optional<double> speed_of(const SimulateOptions& options, bool on_terminal);

}  // namespace moonfence::app
