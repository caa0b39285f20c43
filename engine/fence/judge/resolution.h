#pragma once

// Several policies may have an opinion on one pod; resolve() makes one decision of them. Bindings
// that enforce and bindings that observe are resolved apart, each side as if the other did not
// exist: what observes never changes what is done, not even by forbidding it, and what enforces
// never changes what observing shows. On one side the careful word wins; the first of these that
// applies, whoever stands first:
//
//   1. anybody forbids: nobody acts;
//   2. anybody holds: nobody acts for now;
//   3. a policy has no verdict, because it failed or could not be loaded: the pod is held, since it
//      might have said one of these;
//   4. somebody waits: the pod is looked at again after the shortest wait;
//   5. somebody acts: the first in binding order. A later one that wants something else is a
//      conflict; it is reported and not done;
//   6. everybody skips.
//
// Only skip is the last word on a pod: all the others are asked again, forbid too. Whose trigger is
// not due, or who waits for something that is done to the node, yields: it has not been asked about
// the pod.

#include <cstddef>
#include <optional>
#include <span>

#include "base/time.h"
#include "policy/host/policy.h"
#include "policy/values/mode.h"

namespace moonfence::fence {

// One binding's word on a pod.
struct Opinion {
  std::size_t binding = 0;  // its place in the set
  policy::Mode mode = policy::Mode::Observe;
  bool yields = false;  // it says when it can be asked: everybody else's word comes first
  std::optional<policy::Verdict> verdict;  // nullopt: the policy had none
  bool ask_again = false;                  // it had none, and may have one in the next pass
  bool failed = false;                     // it had none: it failed, or could not be loaded
  bool unproven = false;  // it would act if there were the proof that is demanded: it holds
};

struct Decision {
  enum class Kind {
    None,  // nobody on this side has an opinion
    Skip,
    Wait,
    Act,
    Held,       // rules 2 and 3
    Forbidden,  // rule 1
  };
  Kind kind = Kind::None;
  // Whose word it is; of Wait: who waits shortest, of the others the first. Null for None and for a
  // Wait of those who only yield. Of Held without a verdict: it failed.
  const Opinion* by = nullptr;
  const Opinion* stopped = nullptr;    // of Forbidden, Held and Wait: who would have acted
  const Opinion* overruled = nullptr;  // the first that wants another action than the first acting
  std::optional<Duration> look_again;  // of Forbidden, Held and Wait
  bool ask_again = false;              // a failure to be repeated decided
};

// When whoever forbids is asked again.
constexpr Duration kForbidsFor = std::chrono::minutes(1);

// The decision of the bindings in this mode. `opinions` stand in binding order and must outlive it.
[[nodiscard]] Decision resolve(std::span<const Opinion> opinions, policy::Mode side);

// Whatever the reasons are, the same would happen.
[[nodiscard]] bool same_action(const policy::Verdict& a, const policy::Verdict& b);

}  // namespace moonfence::fence
