#pragma once

// At the end of a run that was calm for long enough: no node that is down holds a pod that all
// policies in force that are asked about it want gone (invariant I8), and none that was made anew
// holds one that its new machine does not run. No node that is up carries the taint of a silent
// machine. An engine that asks machines' kernels leaves a node
// alone that answers, and may for a while after it did. The brake ends like any other obstacle:
// since it let go the time counts. While too many are down nothing at all may be demanded, for it
// holds all nodes alike; and that more are down than the engine counts, who leaves out nodes with
// nothing to be moved, changes with every pod that comes and goes, so it is not told apart here.

#include "sim/truth/brake_limits.h"
#include "sim/truth/checker.h"

namespace moonfence::sim {

class LivenessChecker final : public Checker {
 public:
  explicit LivenessChecker(Bench& bench) : Checker(bench), brake_(bench.plan) {}
  void on_change(const Change& change) override { brake_.on_change(change, truth()); }
  void at_end(Duration calm_for) override;

 private:
  void look_at(const NodeTruth& node, const Reach& reach, Duration settled) const;
  // By us as that of a silent machine, although it answers.
  [[nodiscard]] bool is_kept_free(const std::string& name) const;
  // Its storage must have been told to refuse the machine, and the pod waits for nothing else.
  [[nodiscard]] bool must_be_isolated(const NodeTruth& node, const PodTruth& pod,
                                      Duration settled) const;
  // Its kernel, and somebody asks it.
  [[nodiscard]] bool has_answered_lately(const std::string& machine) const;
  // By UID.
  [[nodiscard]] bool runs(const std::string& machine, const std::string& pod) const;
  [[nodiscard]] bool can_be_demanded(const PodTruth& pod, Duration settled) const;
  // Of the policies that are asked about it.
  [[nodiscard]] bool is_wanted_gone(const PodTruth& pod, const Reach& reach, bool was_silent,
                                    Duration settled) const;

  BrakeTruth brake_;
};

}  // namespace moonfence::sim
