#include "loop/loop.h"

#include <algorithm>
#include <utility>

namespace moonfence::loop {

Timer::Timer(Timer&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), key_(std::move(other.key_)) {}

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    loop_ = std::exchange(other.loop_, nullptr);
    key_ = other.key_;
  }
  return *this;
}

Timer::~Timer() {
  cancel();
}

void Timer::cancel() {
  if (loop_ != nullptr) {
    loop_->timers_.erase(key_);
    loop_ = nullptr;
  }
}

bool Timer::pending() const {
  return loop_ != nullptr && loop_->timers_.contains(key_);
}

Loop::Loop(Poller& poller) : poller_(poller), now_(poller.now()) {}

Timer Loop::after(Duration delay, std::function<void()> action) {
  const Timer::Key key{now_ + std::max(delay, Duration::zero()), next_sequence_++};
  timers_.emplace(key, std::move(action));
  return {*this, key};
}

void Loop::defer(std::function<void()> action) {
  deferred_.push_back(std::move(action));
}

void Loop::turn() {
  std::optional<Duration> limit;
  if (!deferred_.empty()) {
    limit = Duration::zero();
  } else if (!timers_.empty()) {
    limit = std::max(timers_.begin()->first.first - poller_.now(), Duration::zero());
  }
  poller_.wait(limit);
  now_ = std::max(now_, poller_.now());
  ++turns_;
  poller_.perform();
  fire_due_timers();
  run_deferred();
}

std::optional<Moment> Loop::next_due() const {
  if (!deferred_.empty()) {
    return now_;
  }
  return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first.first);
}

void Loop::fire_due_timers() {
  // Timers set while firing wait for a later turn: only sequence numbers below this one fire.
  const std::uint64_t first_new = next_sequence_;
  auto next = timers_.begin();
  while (next != timers_.end() && next->first.first <= now_) {
    if (next->first.second >= first_new) {
      ++next;
      continue;
    }
    std::function<void()> action = std::move(next->second);
    timers_.erase(next);
    action();
    action = nullptr;        // what it held may cancel a timer as it dies
    next = timers_.begin();  // the action may have set or cancelled any timer
  }
}

void Loop::run_deferred() {
  std::vector<std::function<void()>> batch;
  batch.swap(deferred_);
  for (const auto& action : batch) {
    action();
  }
}

void Loop::run() {
  stopped_ = false;
  while (!stopped_) {
    turn();
  }
}

}  // namespace moonfence::loop
