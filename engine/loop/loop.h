#pragma once

// Loop runs everything that happens on the one thread, in turns. A turn: wait for input or the next
// timer, deliver input, fire due timers, run deferred calls. Time stands still inside a turn: now()
// changes only when the loop waits, so everything decided in one turn was decided at one moment.
// The same class serves production and simulation; the Poller is what differs.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace moonfence::loop {

// How the loop waits. Implemented over epoll and libcurl in os/ and over virtual time in sim/.
class Poller {
 public:
  virtual ~Poller() = default;
  [[nodiscard]] virtual Moment now() = 0;
  // Returns when input is ready or `limit` has passed (nullopt: no limit), whichever is first.
  virtual void wait(std::optional<Duration> limit) = 0;
  // Delivers what is ready to whoever waits for it.
  virtual void perform() = 0;
};

class Loop;

// A pending call. Destroying it cancels it; a fired timer is inert. The Loop must outlive it.
class [[nodiscard]] Timer {
 public:
  Timer() = default;
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&& other) noexcept;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  void cancel();
  [[nodiscard]] bool pending() const;

 private:
  friend class Loop;
  using Key = std::pair<Moment, std::uint64_t>;
  Timer(Loop& loop, Key key) : loop_(&loop), key_(key) {}

  Loop* loop_ = nullptr;
  Key key_{};
};

class Loop {
 public:
  explicit Loop(Poller& poller);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // The moment this turn began. Constant within a turn.
  [[nodiscard]] Moment now() const { return now_; }

  // The moment as it is. For guards that are asked while bytes leave, at the end of a turn that may
  // have been long, for how long work has taken, and for bounds of when something was read;
  // everything else uses now().
  [[nodiscard]] Moment live_now() { return poller_.now(); }

  // Calls `action` once in a later turn, not before `delay` has passed. Timers due in one turn fire
  // by due time, equal ones in the order in which they were set.
  Timer after(Duration delay, std::function<void()> action);

  // Calls `action` in the next turn, after what this turn started has gone out: how long work is
  // cut into slices. (A timer of zero delay set before this turn's timers fire still fires in it.)
  Timer in_next_turn(std::function<void()> action) { return after(Duration(1), std::move(action)); }

  // Calls `action` at the end of this turn; when called outside a turn, in the next one. A deferred
  // call that defers again waits for the next turn, so a turn always ends. Whoever defers guards
  // against its own destruction.
  void defer(std::function<void()> action);

  // One turn.
  void turn();
  // Turns until stop().
  void run();
  void stop() { stopped_ = true; }

  [[nodiscard]] std::uint64_t turns() const { return turns_; }

  // When the next turn has something to do without input; nullopt: never. For a simulation, which
  // decides whose turn is next.
  [[nodiscard]] std::optional<Moment> next_due() const;
  // Timers that wait, for whoever watches that they do not grow in number.
  [[nodiscard]] std::size_t timers() const { return timers_.size(); }

 private:
  friend class Timer;
  void fire_due_timers();
  void run_deferred();

  Poller& poller_;
  Moment now_;
  std::map<Timer::Key, std::function<void()>> timers_;
  std::vector<std::function<void()>> deferred_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t turns_ = 0;
  bool stopped_ = false;
};

}  // namespace moonfence::loop
