#pragma once

// Mailbox carries calls from other threads to the loop's thread: an eventfd wakes the loop, and the
// calls run there in the order in which they came. Owned by whoever owns the loop.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "os/system/descriptor.h"
#include "os/system/descriptors.h"

namespace moonfence::os {

class Mailbox final {
 public:
  using Call = std::function<void()>;

  // On the loop's thread. `descriptors` must outlive it.
  explicit Mailbox(Descriptors& descriptors);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  // On the loop's thread, when no other thread can call any more.
  ~Mailbox();

  static constexpr std::size_t kCalls = 256;  // that wait; each has a thread that waits for it

  // From any thread. False: it was dropped, after close(), or because kCalls wait.
  bool post(Call call);

  // From any thread but the loop's: runs `question` on the loop's thread, which answers by the
  // function that it is given, at once or in a later turn. nullopt: no answer within `longest`,
  // kCalls wait, or closed. An answer that comes later goes nowhere.
  template <class T>
  [[nodiscard]] std::optional<T> ask(std::function<void(std::function<void(T)>)> question,
                                     Duration longest) {
    const auto slot = std::make_shared<std::optional<T>>();
    const bool posted = post([shared = shared_, slot, question = std::move(question)] {
      question([shared, slot](T answer) {
        const std::scoped_lock lock(shared->mutex);
        *slot = std::move(answer);
        shared->answered.notify_all();
      });
    });
    if (!posted) {
      return std::nullopt;
    }
    std::unique_lock lock(shared_->mutex);
    shared_->answered.wait_for(lock, longest,
                               [this, &slot] { return slot->has_value() || shared_->closed; });
    return *slot;
  }

  // From any thread. Wakes whoever waits in ask(), and takes no more calls.
  void close();

 private:
  // Outlives the mailbox where an answer is still to come.
  struct Shared {
    std::mutex mutex;
    std::condition_variable answered;
    std::vector<Call> calls;
    bool closed = false;
  };

  void deliver();

  Descriptors& descriptors_;
  Descriptor wake_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace moonfence::os
