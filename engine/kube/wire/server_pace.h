#pragma once

// ServerPace is how slow the API server is at present, as our own calls show: of reads and of
// writes of single objects the slowest of the last minutes. Limits are made of it, so that a server
// on slow disks, or a webhook that takes its time, is waited for, and an ordinary one is not
// believed for longer than it needs (docs/decisions/0011). Both limits have an upper bound: beyond
// it nothing is done, and that is told.

#include <deque>
#include <string>

#include "base/time.h"
#include "port/http.h"

namespace moonfence::kube {

// The longest and the shortest of what was noted lately. Forgets in slices of half a minute.
class CallTimes {
 public:
  static constexpr Duration kRemembered = std::chrono::minutes(5);
  // As long as a call that was begun by an older figure may be under way.
  static constexpr Duration kUnderWay = std::chrono::minutes(1);

  void note(Duration took, Moment now);
  [[nodiscard]] Duration longest(Moment now, Duration of = kRemembered) const;
  // Zero: nothing was noted.
  [[nodiscard]] Duration shortest(Moment now) const;

 private:
  struct Slice {
    Moment since;
    Duration longest{};
    Duration shortest = Duration::max();
  };
  std::deque<Slice> slices_;
};

class ServerPace {
 public:
  // Of a reading on which something is done: how old it may be when the bytes of the deed leave.
  static constexpr Duration kFreshest = std::chrono::seconds(1);
  static constexpr Duration kOldest = std::chrono::seconds(5);
  // Of a write: when both sides give it up. Webhooks may take 30 s (k/k MaxTimeoutSeconds).
  static constexpr Duration kShortestCall = std::chrono::seconds(2);
  static constexpr Duration kLongestCall = std::chrono::seconds(35);

  // Of each call of a single object, when its answer begins, or it was given up or cut without one.
  // Silence says that the server is slow only while it answers others: for one that is out of reach
  // nothing is to take longer.
  void call_ended(port::Method method, bool answered, Duration took, Moment now);

  // Twice what the slowest took: that of a call which was given up is what it took at least.
  [[nodiscard]] Duration reading_lifetime(Moment now) const;
  [[nodiscard]] Duration call_limit(Moment now) const;
  // The longest that any call may have been given that is under way now.
  [[nodiscard]] Duration longest_call_under_way(Moment now) const;
  [[nodiscard]] Duration slowest_read(Moment now) const { return reads_.longest(now); }
  // About how long the way to the server and back takes.
  [[nodiscard]] Duration quickest_read(Moment now) const { return reads_.shortest(now); }
  [[nodiscard]] Duration slowest_write(Moment now) const { return writes_.longest(now); }
  // Reads take longer than the oldest reading may be, or writes than the longest limit: what has to
  // be done cannot be done.
  [[nodiscard]] bool is_too_slow(Moment now) const;
  // For people; "" when it is not.
  [[nodiscard]] std::string slowness(Moment now) const;
  // When the newest answer began to arrive.
  [[nodiscard]] Moment answered_at() const { return answered_at_; }

 private:
  CallTimes reads_;
  CallTimes writes_;
  Moment answered_at_{};
};

}  // namespace moonfence::kube
