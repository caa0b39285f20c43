#include "fence/rules/triggers.h"

#include <algorithm>
#include <limits>

namespace moonfence::fence {

std::string signal_of(const policy::Binding& binding) {
  if (binding.policy != nullptr && binding.policy->health_source()) {
    return binding.digest;
  }
  switch (binding.allow.act_on) {
    case policy::ActOn::Down:
      return {};
    case policy::ActOn::Lost:
      return std::string(kLostSignal) + format_duration(binding.allow.after);
    case policy::ActOn::Off:
      return std::string(kOffSignal) + format_duration(binding.allow.after);
  }
  return {};
}

bool is_by_detection(std::string_view source) {
  return source.starts_with(kLostSignal) || is_by_fencers(source);
}

bool is_by_fencers(std::string_view source) {
  return source.starts_with(kOffSignal);
}

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

Standing standing_of(const policy::Trigger& trigger, Duration held, const Downtime& downtime,
                     const Signal& signal, Moment now) {
  if (signal.deleted && !trigger.deleted) {
    return {.kind = Standing::Kind::NotDeleted};
  }
  if (!trigger.sweep && !downtime.fell) {
    return {.kind = Standing::Kind::NotSwept};
  }
  if (signal.silent ? signal.answers && !trigger.live_kernel : !trigger.live_kubelet) {
    return {.kind = Standing::Kind::Unfit};
  }
  const bool speaks = !signal.silent && !signal.deleted;
  const Moment due =
      speaks ? std::max(downtime.since, signal.unbroken_since) + std::max(hold_down(trigger), held)
             : downtime.since + hold_down(trigger);
  if (now < due) {
    return {.kind = Standing::Kind::NotDueYet, .due_in = due - now};
  }
  return {};
}

HoldDowns hold_downs(const policy::PolicySet& set, bool fell, std::string_view source) {
  HoldDowns shortest = {.silent = std::nullopt, .living = std::nullopt};
  const bool of_kubernetes = source.empty();  // a source knows of no kubelet, and needs the Node
  const auto offer = [](std::optional<Duration>& least, Duration candidate) {
    least = std::min(least.value_or(candidate), candidate);
  };
  for (const policy::Binding& binding : set.bindings) {
    if (binding.policy == nullptr || (!fell && !binding.policy->trigger().sweep) ||
        signal_of(binding) != source) {
      continue;
    }
    const policy::Trigger& trigger = binding.policy->trigger();
    offer(shortest.silent, hold_down(trigger));
    if (trigger.live_kernel) {
      offer(shortest.answering, hold_down(trigger));
    }
    if (trigger.live_kubelet || !of_kubernetes) {
      offer(shortest.living,
            of_kubernetes ? std::max(hold_down(trigger), binding.hold_down) : hold_down(trigger));
    }
    if (trigger.deleted && of_kubernetes) {
      offer(shortest.deleted_silent, hold_down(trigger));
      if (trigger.live_kubelet) {
        offer(shortest.deleted_living, hold_down(trigger));
      }
    }
  }
  return shortest;
}

bool acts_on_deleted(const policy::PolicySet& set, bool fell, std::string_view source) {
  return hold_downs(set, fell, source).deleted_silent.has_value();
}

bool may_detach(const policy::Binding& binding) {
  return binding.policy != nullptr && binding.policy->needs().volumes && binding.policy->can_act();
}

bool may_detach(const policy::PolicySet& set) {
  return std::any_of(set.bindings.begin(), set.bindings.end(),
                     [](const policy::Binding& binding) { return may_detach(binding); });
}

}  // namespace moonfence::fence
