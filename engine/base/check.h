#pragma once

// MOONFENCE_CHECK states what must hold whatever the outside world does: a broken invariant is our
// own fault, and a process that deletes pods must not go on with it. It stays on in release builds;
// the restart is safe, because all state lives in the cluster. Input is validated, never checked.

namespace moonfence {

// Prints the broken condition with its place to standard error and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace moonfence

#define MOONFENCE_CHECK(condition)                               \
  do {                                                           \
    if (!(condition)) {                                          \
      ::moonfence::check_failed(#condition, __FILE__, __LINE__); \
    }                                                            \
  } while (false)
