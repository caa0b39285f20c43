#pragma once

// Real time for `moonfence simulate`. Blocks SIGINT and SIGTERM for the process and reads them
// while it waits; opened before any thread starts.

#include <csignal>

#include "port/pace.h"

namespace moonfence::os {

class SignalPace final : public port::Pace {
 public:
  SignalPace();
  ~SignalPace() override;
  SignalPace(const SignalPace&) = delete;
  SignalPace& operator=(const SignalPace&) = delete;

  bool wait_until(Duration real) override;

 private:
  sigset_t signals_{};
  sigset_t mask_before_{};
  Duration begin_{};
  bool stopped_ = false;
};

// Whether standard output is a terminal that wants colours (NO_COLOR is not set).
struct Terminal {
  bool is_terminal = false;
  bool has_colours = false;
};
[[nodiscard]] Terminal standard_output();

}  // namespace moonfence::os
