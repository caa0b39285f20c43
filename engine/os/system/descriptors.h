#pragma once

// File descriptors that wake the loop: signals, child processes, pipes. The CurlPoller implements
// it; callbacks run inside a turn, after the turn's network input.

#include <functional>
#include <utility>

namespace moonfence::os {

class Descriptors {
 public:
  enum class Wait { Input, Output };

  virtual ~Descriptors() = default;
  // Calls `ready` in every turn that finds input on `fd`, or room for output, or an end of it,
  // until forget(); again for the same descriptor, instead. It stays the caller's and must not be
  // closed before it is forgotten.
  virtual void watch(int fd, std::function<void()> ready, Wait wait) = 0;
  void watch(int fd, std::function<void()> readable) {
    watch(fd, std::move(readable), Wait::Input);
  }
  // Allowed inside the callback; nothing is heard of the descriptor afterwards.
  virtual void forget(int fd) = 0;
};

}  // namespace moonfence::os
