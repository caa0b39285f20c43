#include <cstdio>
#include <exception>

#include "app/daemon.h"
#include "app/options.h"

namespace moonfence::app {
namespace {

int start(int argc, const char* const* argv) {
  const Command command = parse_command_line(argc, argv);
  if (const auto* options = std::get_if<RunOptions>(&command)) {
    return static_cast<int>(run(*options));
  }
  if (const auto* last_words = std::get_if<Leave>(&command)) {
    std::fputs(last_words->text.c_str(), last_words->code == ExitCode::Ok ? stdout : stderr);
    return static_cast<int>(last_words->code);
  }
  std::fputs(
      "moonfenced: it is the daemon and has `run` alone; every other command is one of moonfence\n",
      stderr);
  return static_cast<int>(ExitCode::Usage);
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
