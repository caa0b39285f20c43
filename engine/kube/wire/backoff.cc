#include "kube/wire/backoff.h"

#include <algorithm>

namespace moonfence::kube {
namespace {

constexpr Duration kFirst = std::chrono::milliseconds(800);
constexpr Duration kLongest = std::chrono::seconds(30);
constexpr Duration kForgottenAfter = std::chrono::minutes(2);

}  // namespace

Duration Backoff::next(Moment now, double chance, std::optional<Duration> retry_after) {
  const bool forgotten = step_ == Duration::zero() || now - quiet_since_ > kForgottenAfter;
  step_ = forgotten ? kFirst : std::min(step_ * 2, kLongest);
  const Duration jitter(static_cast<Duration::rep>(static_cast<double>(step_.count()) * chance));
  const Duration delay = std::max(step_ + jitter, retry_after.value_or(Duration::zero()));
  quiet_since_ = now + delay;
  return delay;
}

}  // namespace moonfence::kube
