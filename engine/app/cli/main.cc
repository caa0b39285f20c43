#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "app/cli/options.h"
#include "app/cluster_commands/client_command.h"
#include "app/policy_commands/policy_command.h"
#include "app/settings/version.h"
#include "app/simulate/simulate_command.h"
#include "os/system/clocks.h"
#include "os/system/process.h"
#include "os/system/system_files.h"
#include "os/tools/pace.h"
#include "policy/host/lua_self_test.h"

namespace moonfence::app {
namespace {

ExitCode leave(const Leave& leave) {
  std::fputs(leave.text.c_str(), leave.code == ExitCode::Ok ? stdout : stderr);
  return leave.code;
}

ExitCode print_version() {
  std::printf("moonfence %s (commit %s)\n", std::string(version()).c_str(),
              std::string(commit()).c_str());
  return ExitCode::Ok;
}

int run_policy(const PolicyOptions& options) {
  if (const auto sound = policy::lua_self_test(); !sound) {
    std::fprintf(stderr, "moonfence: %s\n", sound.error().message().c_str());
    return static_cast<int>(PolicyExit::Unusable);
  }
  os::SystemFiles files;
  os::ThreadCpuClock clock;
  os::SystemWallClock wall;
  const PolicyOutput output =
      run_policy_command(options, {.files = files, .clock = clock, .now = wall.now()});
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fwrite(output.err.data(), 1, output.err.size(), stderr);
  return static_cast<int>(output.code);
}

// Policies are run in a simulation, too.
int run_simulate(const SimulateOptions& options) {
  if (const auto sound = policy::lua_self_test(); !sound) {
    std::fprintf(stderr, "moonfence: %s\n", sound.error().message().c_str());
    return static_cast<int>(SimulateExit::Unusable);
  }
  os::SystemFiles files;
  os::SignalPace pace;
  const os::Terminal terminal = os::standard_output();
  const auto print_to = [](std::FILE* stream) {
    return [stream](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
    };
  };
  return static_cast<int>(run_simulate_command(options, {.files = files,
                                                         .pace = pace,
                                                         .out = print_to(stdout),
                                                         .err = print_to(stderr),
                                                         .on_terminal = terminal.is_terminal,
                                                         .colours = terminal.has_colours}));
}

// Policies are run in a rehearsal, too.
int run_client(const ClientOptions& options) {
  if (const auto sound = policy::lua_self_test(); !sound) {
    std::fprintf(stderr, "moonfence: %s\n", sound.error().message().c_str());
    return static_cast<int>(ClientExit::Policy);
  }
  const ClientOutput output = run_client_command(options, [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fwrite(output.err.data(), 1, output.err.size(), stderr);
  return static_cast<int>(output.code);
}

// The daemon is a program of its own (app/daemon/moonfenced.cc): what stays in memory for months
// holds no code of the commands.
ExitCode become_daemon(char* const* argv) {
  const Error problem = os::become("moonfenced", argv);
  std::fprintf(stderr, "moonfence: %s\n", problem.message().c_str());
  return ExitCode::Failed;
}

int start(int argc, char* const* argv) {
  const Command command = parse_command_line(argc, argv);
  if (std::holds_alternative<RunOptions>(command)) {
    return static_cast<int>(become_daemon(argv));
  }
  if (const auto* options = std::get_if<PolicyOptions>(&command)) {
    return run_policy(*options);
  }
  if (const auto* options = std::get_if<SimulateOptions>(&command)) {
    return run_simulate(*options);
  }
  if (const auto* options = std::get_if<ClientOptions>(&command)) {
    return run_client(*options);
  }
  if (const auto* last_words = std::get_if<Leave>(&command)) {
    return static_cast<int>(leave(*last_words));
  }
  return static_cast<int>(print_version());
}

}  // namespace
}  // namespace moonfence::app

// Every command but `moonfence run`, which another program takes over.
int main(int argc, char** argv) {
  try {
    return moonfence::app::start(argc, argv);
  } catch (const std::exception& fault) {
    // Nothing below is meant to throw; if memory ran out, say so and let the restart find the
    // cluster.
    std::fprintf(stderr, "moonfence: %s\n", fault.what());
    return static_cast<int>(moonfence::app::ExitCode::Failed);
  }
}
