#include "fence/rules/pass_result.h"

#include <algorithm>

namespace moonfence::fence {

using audit::Reason;

Moment RetryRules::next(Duration& pause, Moment started, Moment first, Moment asked) const {
  const Moment soon = std::max(started + interval, asked);
  if (soon < first + window && pause == Duration::zero()) {
    return soon;
  }
  const Duration doubled = std::max(pause, interval) * 2;
  pause = std::max(interval, std::min(doubled, pause_max));
  return std::max(started + pause, asked);
}

void PassResult::fail(const std::string& what, std::optional<Duration> pause, Reason why) {
  ++failed;
  failed_for = failed_for.value_or(why);
  obstacle = obstacle.empty() ? what : obstacle;
  const Duration asked = pause.value_or(Duration::zero());
  retry_after = std::min(retry_after.value_or(asked), asked);
}

void PassResult::look_by(Moment moment) {
  look_at = std::min(look_at.value_or(moment), moment);
}

void PassResult::hold(const std::string& what, Duration pause, Reason why) {
  waits = true;
  waits_for = waits_for.value_or(why);
  waiting = waiting.empty() ? what : waiting;
  look_again = std::min(look_again.value_or(pause), pause);
}

}  // namespace moonfence::fence
