#include "fence/triggers.h"

#include <algorithm>
#include <limits>

namespace moonfence::fence {

Duration hold_down(const policy::Trigger& trigger) {
  return trigger.failures > 1 ? trigger.interval * trigger.failures : Duration::zero();
}

std::uint32_t failures_of(const policy::Trigger& trigger, Duration down_for) {
  if (trigger.interval <= Duration::zero() || down_for < trigger.interval) {
    return 1;
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(
      std::min(static_cast<std::int64_t>(down_for / trigger.interval), kMost));
}

Standing standing_of(const policy::Trigger& trigger, const Downtime& downtime, bool silent,
                     Moment now) {
  if (!trigger.sweep && !downtime.fell) {
    return {.kind = Standing::Kind::NotSwept};
  }
  if (!trigger.live_kubelet && !silent) {
    return {.kind = Standing::Kind::Unfit};
  }
  const Moment due = downtime.since + hold_down(trigger);
  if (now < due) {
    return {.kind = Standing::Kind::NotDueYet, .due_in = due - now};
  }
  return {};
}

HoldDowns hold_downs(const policy::PolicySet& set, bool fell) {
  HoldDowns shortest = {.silent = std::nullopt, .living = std::nullopt};
  const auto offer = [](std::optional<Duration>& least, Duration candidate) {
    least = std::min(least.value_or(candidate), candidate);
  };
  for (const policy::Binding& binding : set.bindings) {
    if (binding.policy == nullptr || (!fell && !binding.policy->trigger().sweep)) {
      continue;
    }
    const policy::Trigger& trigger = binding.policy->trigger();
    offer(shortest.silent, hold_down(trigger));
    if (trigger.live_kubelet) {
      offer(shortest.living, hold_down(trigger));
    }
  }
  return shortest;
}

}  // namespace moonfence::fence
