#pragma once

// What one pass over a failed node's pods is about, and what it came to.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"
#include "fence/rules/triggers.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::fence {

// How what fails is tried again: every `interval` for `window` after the first pass that tried it
// (row E-07: passes at 0, 5, 10, 15, 20 s), then with pauses that double, for ever.
struct RetryRules {
  Duration interval = std::chrono::seconds(5);
  Duration window = std::chrono::seconds(25);
  Duration pause_max = std::chrono::seconds(60);

  // After a pass that began at `started`. `pause`: the last one after the window, zero inside; it
  // grows. `asked`: not before, by the server's word.
  [[nodiscard]] Moment next(Duration& pause, Moment started, Moment first, Moment asked) const;
};

// What one pass is about.
struct PassContext {
  std::shared_ptr<const policy::PolicySet> set;  // in force when the pass began; it keeps this one
  Downtime downtime;
  IncidentId incident;
  std::uint32_t attempt = 1;
  std::uint32_t stretch = 0;  // of the incident: in another one what failed may be tried at once
  RetryRules retry = {};
  // For how long nothing could be read in this incident: no window is used up by it.
  Duration unread = Duration::zero();
  bool unknown = false;  // Ready is believed to be Unknown: peers' Leases are read beside it
};

// What one pass over the node's pods came to.
struct PassResult {
  std::uint32_t failed = 0;                            // to be tried again
  std::uint32_t failed_observing = 0;                  // the same, but nothing would be done
  std::uint32_t deleted = 0;                           // that are dealt with
  bool waits = false;                                  // a policy waits for something about a pod
  std::string waiting = {};                            // which, whose and why, for people
  std::optional<Duration> look_again = std::nullopt;   // the shortest wait a policy asked for
  std::optional<Moment> look_at = std::nullopt;        // the earliest of what is due then
  std::optional<Duration> retry_after = std::nullopt;  // what the server asked for
  // Of what was deleted something has no replacement that is Ready yet: when the last of it was.
  std::optional<Moment> unreplaced = std::nullopt;
  bool unverified = false;        // and nobody has looked for one yet
  bool unreadable = false;        // some of the pods could not be listed
  bool unfit = false;             // a policy would be asked if the kubelet were silent
  bool policies_changed = false;  // other policies are in force than those that judged
  bool untainted = false;         // our taint could not be set; nothing was deleted without it
  std::optional<audit::Reason> braked = std::nullopt;  // the brake stopped it in the middle
  // Policies whose failure keeps pods from being dealt with: they failed, are not asked any more or
  // could not be loaded. By name.
  std::set<std::string> held_by_failure = {};
  std::string left_behind = {};  // of a volume that stays attached and was told, for people
  // Of what failed the first, for people and as a reason; and why the first of what waits does.
  std::string obstacle = {};
  std::optional<audit::Reason> failed_for = std::nullopt;
  std::optional<audit::Reason> waits_for = std::nullopt;

  // `pause`: what the server asked for, if anything. The shortest counts.
  void fail(const std::string& what, std::optional<Duration> pause = std::nullopt,
            audit::Reason why = audit::Reason::Retryable);
  void look_by(Moment moment);
  // Somebody or something holds it: whose word, for people. It is looked at again.
  void hold(const std::string& what, Duration pause, audit::Reason why = audit::Reason::OnHold);
};

}  // namespace moonfence::fence
