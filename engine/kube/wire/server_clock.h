#pragma once

// The API server's clock, as well as its Date headers tell it. A Date has whole seconds, so each
// answer gives an interval for the distance between the server's clock and our monotonic one;
// intervals of many answers are intersected. What is told is the earliest that it can be, carried
// on by the monotonic clock: what is due by it (a pod's deletionTimestamp, a Lease that ran out) is
// due by the server's clock too (of several API servers: by one of theirs). It is late by at most a
// second and the time that an answer took, and after many answers by little. It is compared with
// timestamps in API objects and nothing else.

#include <optional>

#include "base/time.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"

namespace moonfence::kube {

class ServerClock final : public CallObserver {
 public:
  explicit ServerClock(loop::Loop& loop) : loop_(loop) {}

  void on_exchange(port::Method method, int status, Duration took,
                   std::optional<WallTime> server_date) override;

  // One answer: the server wrote `date` at some moment between the two.
  void sample(WallTime date, Moment sent, Moment received);

  // Nothing before the first answer. It does not go back before the server's clock was stepped: of
  // two moments that are written down the later one has the later time.
  [[nodiscard]] std::optional<WallTime> now() const;
  [[nodiscard]] std::optional<WallTime> at(Moment moment) const;

 private:
  // The server's wall clock minus our monotonic clock lies in here.
  struct Offset {
    Duration low;
    Duration high;
    Moment known_at;
  };

  loop::Loop& loop_;
  std::optional<Offset> offset_;
  mutable WallTime told_{};  // the newest that now() has answered
};

}  // namespace moonfence::kube
