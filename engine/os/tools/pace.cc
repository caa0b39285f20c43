#include "os/tools/pace.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include <unistd.h>

namespace moonfence::os {
namespace {

Duration monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
}

timespec to_timespec(Duration duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((duration - seconds).count())};
}

}  // namespace

SignalPace::SignalPace() : begin_(monotonic_now()) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
}

SignalPace::~SignalPace() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

bool SignalPace::wait_until(Duration real) {
  while (!stopped_) {
    const Duration left = std::max(begin_ + real - monotonic_now(), Duration::zero());
    const timespec limit = to_timespec(left);
    if (sigtimedwait(&signals_, nullptr, &limit) >= 0) {
      stopped_ = true;
    } else if (errno == EAGAIN) {
      return true;  // the time has come
    }
  }
  return false;
}

Terminal standard_output() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  Terminal terminal{.is_terminal = isatty(STDOUT_FILENO) == 1};
  terminal.has_colours = terminal.is_terminal && (no_color == nullptr || *no_color == '\0') &&
                         kind != nullptr && std::string_view(kind) != "dumb";
  return terminal;
}

}  // namespace moonfence::os
