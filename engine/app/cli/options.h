#pragma once

// The command line, parsed and checked, as values.

#include <string>
#include <variant>

#include "app/cli/reason_command.h"
#include "app/cluster_commands/client_options.h"
#include "app/engine/run_options.h"
#include "app/policy_commands/policy_options.h"
#include "app/simulate/simulate_options.h"

namespace moonfence::app {

struct VersionOptions {};

// What to do, or what to print before leaving with which code.
struct Leave {
  ExitCode code = ExitCode::Ok;
  std::string text;
};
using Command =
    std::variant<RunOptions, PolicyOptions, SimulateOptions, ClientOptions, VersionOptions, Leave>;

[[nodiscard]] Command parse_command_line(int argc, const char* const* argv);

}  // namespace moonfence::app
