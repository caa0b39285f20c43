#include "kube/wire/server_pace.h"

#include <algorithm>

namespace moonfence::kube {
namespace {

constexpr Duration kSlice = std::chrono::seconds(30);

}  // namespace

void CallTimes::note(Duration took, Moment now) {
  if (slices_.empty() || now - slices_.back().since >= kSlice) {
    slices_.push_back({.since = now});
  }
  slices_.back().longest = std::max(slices_.back().longest, took);
  slices_.back().shortest = std::min(slices_.back().shortest, took);
  while (now - slices_.front().since > kRemembered + kUnderWay) {
    slices_.pop_front();
  }
}

Duration CallTimes::longest(Moment now, Duration of) const {
  Duration longest{};
  for (const Slice& slice : slices_) {
    if (now - slice.since <= of) {
      longest = std::max(longest, slice.longest);
    }
  }
  return longest;
}

Duration CallTimes::shortest(Moment now) const {
  Duration shortest = Duration::max();
  for (const Slice& slice : slices_) {
    if (now - slice.since <= kRemembered) {
      shortest = std::min(shortest, slice.shortest);
    }
  }
  return shortest == Duration::max() ? Duration::zero() : shortest;
}

void ServerPace::call_ended(port::Method method, bool answered, Duration took, Moment now) {
  if (answered) {
    answered_at_ = now;
  } else if (answered_at_ <= now - took) {
    return;  // nothing was answered since it was asked
  }
  (method == port::Method::Get ? reads_ : writes_).note(took, now);
}

Duration ServerPace::reading_lifetime(Moment now) const {
  return std::clamp<Duration>(slowest_read(now) * 2, kFreshest, kOldest);
}

Duration ServerPace::call_limit(Moment now) const {
  return std::clamp<Duration>(slowest_write(now) * 2, kShortestCall, kLongestCall);
}

Duration ServerPace::longest_call_under_way(Moment now) const {
  const Duration slowest = writes_.longest(now, CallTimes::kRemembered + CallTimes::kUnderWay);
  return std::clamp<Duration>(slowest * 2, kShortestCall, kLongestCall);
}

bool ServerPace::is_too_slow(Moment now) const {
  return slowest_read(now) >= kOldest || slowest_write(now) >= kLongestCall;
}

std::string ServerPace::slowness(Moment now) const {
  if (!is_too_slow(now)) {
    return {};
  }
  const auto in_ms = [](Duration took) {
    return format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(took));
  };
  return "the API server is too slow to act by: of the last minutes the slowest read took " +
         in_ms(slowest_read(now)) + " (" + in_ms(kOldest) + " is the limit), the slowest write " +
         in_ms(slowest_write(now)) + " (" + in_ms(kLongestCall) + ")";
}

}  // namespace moonfence::kube
