#pragma once

// Signals as input of the loop. The first SIGTERM or SIGINT asks to finish what was begun, the
// second to stop at once. SIGPIPE is ignored: a closed pipe is an error of the write. Blocks the
// signals it reads for the whole process, so it must be opened before any thread starts, and a
// child process must reset its signal mask before exec.

#include <csignal>
#include <functional>
#include <memory>

#include "base/result.h"
#include "os/system/descriptor.h"
#include "os/system/descriptors.h"

namespace moonfence::os {

class Signals final {
 public:
  struct Actions {
    std::function<void()> drain;
    std::function<void()> now;
    std::function<void()> report = nullptr;  // SIGUSR1; null: the signal is left alone
  };

  // `descriptors` must outlive it.
  static Result<std::unique_ptr<Signals>> open(Descriptors& descriptors, Actions actions);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

 private:
  Signals(Descriptors& descriptors, Actions actions, Descriptor file, sigset_t mask_before);
  void read();

  Descriptors& descriptors_;
  Actions actions_;
  Descriptor file_;
  sigset_t mask_before_;
  int stops_ = 0;
};

}  // namespace moonfence::os
