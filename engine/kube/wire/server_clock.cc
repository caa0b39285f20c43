#include "kube/wire/server_clock.h"

#include <algorithm>

namespace moonfence::kube {
namespace {

// How fast two undisciplined clocks part: 100 ppm is five times a cheap quartz. Old intervals widen
// by it, so that a slow drift is followed instead of contradicting them.
constexpr Duration::rep kDriftDivisor = 10'000;

}  // namespace

void ServerClock::on_exchange(port::Method, int, Duration took,
                              std::optional<WallTime> server_date) {
  if (server_date) {
    // It was read within this turn, not before it.
    sample(*server_date, loop_.now() - took, loop_.live_now());
  }
}

void ServerClock::sample(WallTime date, Moment sent, Moment received) {
  const Duration since_epoch = date.time_since_epoch();
  // The Date was cut to its second, and written after the request left and before its answer came.
  const Offset fresh{.low = since_epoch - received.time_since_epoch(),
                     .high = since_epoch + std::chrono::seconds(1) - sent.time_since_epoch(),
                     .known_at = received};
  if (!offset_) {
    offset_ = fresh;
    return;
  }
  const Duration drift = std::max(received - offset_->known_at, Duration::zero()) / kDriftDivisor;
  const Duration low = std::max(offset_->low - drift, fresh.low);
  const Duration high = std::min(offset_->high + drift, fresh.high);
  // No common point: the clock was stepped, or another API server answers now. The newest is right.
  offset_ = low <= high ? Offset{.low = low, .high = high, .known_at = received} : fresh;
}

std::optional<WallTime> ServerClock::now() const {
  const auto known = at(loop_.now());
  if (!known) {
    return std::nullopt;
  }
  // Answers contradict each other where API servers differ by milliseconds: the newest one alone is
  // known to a second. Further back the server's own clock was stepped.
  constexpr Duration kContradiction = std::chrono::seconds(2);
  if (*known >= told_ || told_ - *known >= kContradiction) {
    told_ = *known;
  }
  return told_;
}

std::optional<WallTime> ServerClock::at(Moment moment) const {
  if (!offset_) {
    return std::nullopt;
  }
  return WallTime(moment.time_since_epoch() + offset_->low);
}

}  // namespace moonfence::kube
