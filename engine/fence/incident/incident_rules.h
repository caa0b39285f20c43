#pragma once

#include <array>

#include "base/time.h"
#include "fence/rules/our_taints.h"
#include "fence/rules/pass_result.h"
#include "fence/rules/triggers.h"

namespace moonfence::fence {

struct IncidentRules {
  HoldDowns hold_downs;  // how long the node must be down before anything is read
  RetryRules retry;
  Duration tell_failing_after = std::chrono::seconds(60);
  Duration tell_waiting_after = std::chrono::minutes(2);
  // How soon to look live by ourselves: for the taint when no event shows it, doubled up to
  // unreadable_interval_max, and after a reading that news have overtaken.
  Duration taint_poll = std::chrono::seconds(1);
  // How soon to look again at a node whose machine answers.
  Duration kernel_poll = std::chrono::seconds(10);
  // Whether a pass may begin without the taint, and sets ours before its first deletion.
  Quarantine quarantine = Quarantine::Off;
  Duration unreadable_interval_max = std::chrono::seconds(30);
  std::array<Duration, 3> looks = {std::chrono::seconds(1), std::chrono::seconds(5),
                                   std::chrono::seconds(15)};
  // How long after the last deletion it stays open until replacements are Ready; zero: not at all.
  // Somebody looks at least once, however long ago that was.
  Duration replacement_wait{};
  Duration first_verification = std::chrono::seconds(15);
};

}  // namespace moonfence::fence
