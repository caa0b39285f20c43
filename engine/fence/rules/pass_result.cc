#include "fence/rules/pass_result.h"

#include <algorithm>

namespace moonfence::fence {

using audit::Reason;

void PassResult::fail(const std::string& what, std::optional<Duration> pause, Reason why) {
  ++failed;
  failed_for = failed_for.value_or(why);
  obstacle = obstacle.empty() ? what : obstacle;
  const Duration asked = pause.value_or(Duration::zero());
  retry_after = std::min(retry_after.value_or(asked), asked);
}

void PassResult::hold(const std::string& what, Duration pause, Reason why) {
  waits = true;
  waits_for = waits_for.value_or(why);
  waiting = waiting.empty() ? what : waiting;
  look_again = std::min(look_again.value_or(pause), pause);
}

}  // namespace moonfence::fence
