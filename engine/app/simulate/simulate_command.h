#pragma once

// `moonfence simulate`: the engine in a simulated cluster, for people to watch and programs to
// read. Beside it runs the same cluster without the engine, so that one can see what it is good
// for.

#include <functional>
#include <string>
#include <string_view>

#include "app/simulate/simulate_options.h"
#include "port/files.h"
#include "port/pace.h"

namespace moonfence::app {

enum class SimulateExit : int {
  Ok = 0,
  Failed = 1,    // an expectation was not met, or a safety rule violated
  Unusable = 3,  // the scenario or the policies
  Interrupted = 130,
};

// What the subcommand stands on. Everything outlives the call.
struct SimulateGround {
  port::Files& files;
  port::Pace& pace;
  std::function<void(std::string_view)> out;  // standard output, written through
  std::function<void(std::string_view)> err;
  bool on_terminal = false;
  bool colours = false;
};

[[nodiscard]] SimulateExit run_simulate_command(const SimulateOptions& options,
                                                const SimulateGround& ground);

// Runs a scenario file as fast as possible and prints what was not as expected, or `ok`: what
// scripts/sim and the tests call.
[[nodiscard]] SimulateExit run_scenario_file(const std::string& path, port::Files& files,
                                             const std::function<void(std::string_view)>& out);

}  // namespace moonfence::app
