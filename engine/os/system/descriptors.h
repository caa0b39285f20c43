#pragma once

// File descriptors that wake the loop: signals, child processes, pipes. The CurlPoller implements
// it; callbacks run inside a turn, after the turn's network input.

#include <functional>

namespace moonfence::os {

class Descriptors {
 public:
  virtual ~Descriptors() = default;
  // Calls `readable` in every turn that finds input (or the end of it) on `fd`, until forget(). The
  // descriptor stays the caller's and must not be closed before it is forgotten.
  virtual void watch(int fd, std::function<void()> readable) = 0;
  // Allowed inside the callback; nothing is heard of the descriptor afterwards.
  virtual void forget(int fd) = 0;
};

}  // namespace moonfence::os
