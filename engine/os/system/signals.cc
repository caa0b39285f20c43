#include "os/system/signals.h"

#include <cerrno>
#include <utility>

#include <sys/signalfd.h>
#include <unistd.h>

#include "os/system/system_error.h"

namespace moonfence::os {

Result<std::unique_ptr<Signals>> Signals::open(Descriptors& descriptors, Actions actions) {
  sigset_t wanted{};
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  if (actions.report) {
    sigaddset(&wanted, SIGUSR1);
  }
  Descriptor file(signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!file.open()) {
    return failure(system_error("signalfd", errno));
  }
  sigset_t before{};
  if (const int number = pthread_sigmask(SIG_BLOCK, &wanted, &before); number != 0) {
    return failure(system_error("signal mask", number));
  }
  std::signal(SIGPIPE, SIG_IGN);
  return std::unique_ptr<Signals>(
      new Signals(descriptors, std::move(actions), std::move(file), before));
}

Signals::Signals(Descriptors& descriptors, Actions actions, Descriptor file, sigset_t mask_before)
    : descriptors_(descriptors),
      actions_(std::move(actions)),
      file_(std::move(file)),
      mask_before_(mask_before) {
  descriptors_.watch(file_.get(), [this] { read(); });
}

Signals::~Signals() {
  descriptors_.forget(file_.get());
  // What is still pending was meant for us; delivered now it would kill the process.
  signalfd_siginfo info{};
  while (::read(file_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Signals::read() {
  signalfd_siginfo info{};
  // One signal a turn: an action may destroy this object. The loop calls again for the next.
  if (::read(file_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return;
  }
  if (info.ssi_signo == static_cast<std::uint32_t>(SIGUSR1)) {
    actions_.report();
    return;
  }
  ++stops_;
  const std::function<void()> action = stops_ == 1 ? actions_.drain : actions_.now;
  action();
}

}  // namespace moonfence::os
