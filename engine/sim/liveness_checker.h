#pragma once

// At the end of a run that was calm for long enough: no node that is down holds a pod that the
// policies in force delete at once (invariant I8).

#include "sim/checker.h"

namespace moonfence::sim {

class LivenessChecker final : public Checker {
 public:
  explicit LivenessChecker(Bench& bench) : Checker(bench) {}
  void at_end(Duration calm_for) override;

 private:
  [[nodiscard]] bool must_be_gone(const PodTruth& pod, const NodeTruth& node, const Reach& reach,
                                  Duration settled) const;
};

}  // namespace moonfence::sim
