#pragma once

// Virtual time for unit tests: waiting jumps to the next timer, so an hour passes in no time and in
// the same order on every run.

#include <deque>
#include <functional>

#include "loop/loop.h"

namespace moonfence::test {

class FakePoller final : public loop::Poller {
 public:
  [[nodiscard]] Moment now() override { return now_ += look; }
  void wait(std::optional<Duration> limit) override {
    if (limit && input_.empty()) {
      now_ += *limit;
    }
  }
  void perform() override {
    std::deque<std::function<void()>> batch;
    batch.swap(input_);
    for (const auto& deliver : batch) {
      deliver();
    }
  }

  // Something that arrives from outside in the next turn.
  void deliver(std::function<void()> input) { input_.push_back(std::move(input)); }
  void advance(Duration duration) { now_ += duration; }

  // What passes between two looks at the clock, where work shall take time.
  Duration look{};

 private:
  Moment now_{};
  std::deque<std::function<void()>> input_;
};

// Turns until `done` holds or `limit` of virtual time has passed; false when it never held.
inline bool run_until(loop::Loop& loop, const std::function<bool()>& done,
                      Duration limit = std::chrono::minutes(10), int turns = 100000) {
  const Moment end = loop.now() + limit;
  // A timer of our own keeps an otherwise idle loop moving towards the limit.
  const loop::Timer clock = loop.after(limit, [] {});
  for (int i = 0; i < turns && loop.now() <= end; ++i) {
    if (done()) {
      return true;
    }
    if (loop.now() == end) {
      return false;
    }
    loop.turn();
  }
  return done();
}

// Exactly `duration` of virtual time.
inline void run_for(loop::Loop& loop, Duration duration) {
  run_until(
      loop, [] { return false; }, duration);
}

}  // namespace moonfence::test
