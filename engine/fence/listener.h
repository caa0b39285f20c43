#pragma once

// Listeners hear how a call ended. Whoever asks for what is under way already, a pass that began
// after another one was cancelled, becomes one more listener of that call: nothing is sent twice
// while the first answer is awaited.

#include <functional>
#include <memory>
#include <vector>

namespace moonfence::fence {

struct ActionOutcome;

struct Listener {
  std::weak_ptr<const void> alive;  // nobody listens any more when it has expired
  std::function<void(const ActionOutcome&)> done;
};
using Listeners = std::vector<Listener>;

inline void tell(const Listeners& listeners, const ActionOutcome& outcome) {
  for (const Listener& listener : listeners) {
    if (!listener.alive.expired()) {
      listener.done(outcome);
    }
  }
}

}  // namespace moonfence::fence
