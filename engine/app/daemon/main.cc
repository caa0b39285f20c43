#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "app/daemon/daemon.h"
#include "app/engine/run_options.h"

namespace moonfence::app {
namespace {

int start(int argc, const char* const* argv) {
  CLI::App app{
      "moonfenced: the daemon, which has `run` alone; every other command is one of moonfence"};
  app.require_subcommand(1);
  RunOptions options;
  add_run(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (app.exit(problem) == 0) {
      return static_cast<int>(ExitCode::Ok);
    }
    if (!app.got_subcommand("run")) {
      std::fputs(
          "moonfenced: it is the daemon and has `run` alone; every other command is one of "
          "moonfence\n",
          stderr);
    }
    return static_cast<int>(ExitCode::Usage);
  }
  if (const std::string problem = problem_of(options); !problem.empty()) {
    std::fprintf(stderr, "moonfence run: %s\nRun with --help for more information.\n",
                 problem.c_str());
    return static_cast<int>(ExitCode::Usage);
  }
  return static_cast<int>(run(options));
}

}  // namespace
}  // namespace moonfence::app

// `moonfence run`, which becomes this program with the same arguments.
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
