#pragma once

// At the end of a run that was calm for long enough: no node that is down holds a pod that the
// policies in force delete at once (invariant I8), unless the brake has a say in it.

#include "sim/brake_limits.h"
#include "sim/checker.h"

namespace moonfence::sim {

class LivenessChecker final : public Checker {
 public:
  explicit LivenessChecker(Bench& bench) : Checker(bench), brake_(bench.plan) {}
  void on_change(const Change& change) override { brake_.on_change(change, truth()); }
  void at_end(Duration calm_for) override;

 private:
  [[nodiscard]] bool must_be_gone(const PodTruth& pod, const NodeTruth& node, const Reach& reach,
                                  Duration settled) const;

  BrakeTruth brake_;
};

}  // namespace moonfence::sim
