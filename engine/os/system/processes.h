#pragma once

// Child processes without threads and without SIGCHLD: posix_spawn into a process group of its own,
// pipes and a pidfd that the loop waits for. Whatever ends a process (exit, timeout, too much
// output, its handle destroyed) kills what is left of its group and reaps it, so neither strays nor
// zombies remain. The child gets /dev/null as input, no other descriptor of ours and no blocked
// signal.

#include <map>
#include <memory>

#include <sys/types.h>

#include "loop/loop.h"
#include "os/system/descriptors.h"
#include "port/processes.h"

namespace moonfence::os {

class ChildProcesses final : public port::Processes {
 public:
  // Both must outlive this object, and this object every process it started.
  ChildProcesses(loop::Loop& loop, Descriptors& descriptors);
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  // Waits for children that were killed but have not ended yet.
  ~ChildProcesses() override;

  // Errors: NotFound when there is no such program, Forbidden when it may not run, Limit for too
  // much output, Retryable for a timeout and when the system has no room for a process. The handle
  // may be destroyed inside `done`.
  [[nodiscard]] std::unique_ptr<port::Process> start(port::Command command, Done done) override;

  // Children that were killed and not reaped yet.
  [[nodiscard]] std::size_t dying() const { return dying_.size(); }

 private:
  class Child;
  // Takes over a killed child: it may take a while to die, and nobody waits meanwhile.
  void bury(pid_t process, int pidfd);

  loop::Loop& loop_;
  Descriptors& descriptors_;
  std::map<int, pid_t> dying_;  // by pidfd
};

}  // namespace moonfence::os
