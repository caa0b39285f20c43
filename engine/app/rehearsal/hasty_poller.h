#pragma once

// HastyPoller lets time run ahead of the clock when asked to: what waits for time alone need not
// be waited for. Time never jumps by more than a second, and only while nothing is under way, so
// that every answer still is as old as it is.

#include <algorithm>
#include <functional>
#include <utility>

#include "loop/loop.h"

namespace moonfence::app {

class HastyPoller final : public loop::Poller {
 public:
  static constexpr Duration kStep = std::chrono::seconds(1);

  // `in_haste` is asked before each wait.
  HastyPoller(loop::Poller& real, std::function<bool()> in_haste)
      : real_(real), in_haste_(std::move(in_haste)) {}

  [[nodiscard]] Moment now() override { return real_.now() + ahead_; }
  void wait(std::optional<Duration> limit) override {
    if (limit && *limit > Duration::zero() && in_haste_()) {
      const Duration skipped = std::min(*limit, kStep);
      ahead_ += skipped;
      limit = Duration::zero();
    }
    real_.wait(limit);
  }
  void perform() override { real_.perform(); }

  [[nodiscard]] Duration ahead() const { return ahead_; }

 private:
  loop::Poller& real_;
  const std::function<bool()> in_haste_;
  Duration ahead_{};
};

}  // namespace moonfence::app
