#pragma once

// VerdictCounts count what each policy, as it is bound, has come to in one incident, for rules of
// the kind "at most N" (cluster.tally). What a policy wants counts from the moment it says so,
// whether it is carried out or only observed, so that a rule holds for pods that are judged in one
// go; of a pod that is judged again, its newest word counts, and never towards the judgement of the
// pod itself.

#include <map>
#include <string>

#include "base/names.h"
#include "policy/host/policy.h"

namespace moonfence::fence {

class VerdictCounts {
 public:
  // What the policy has come to on all other pods.
  [[nodiscard]] policy::Tally without(const std::string& policy, const Uid& pod) const;
  void note(const std::string& policy, const Uid& pod, policy::Verdict::Kind kind);

 private:
  struct Count {
    policy::Tally sum;
    std::map<Uid, policy::Verdict::Kind> words;
  };
  std::map<std::string, Count> counts_;
};

}  // namespace moonfence::fence
