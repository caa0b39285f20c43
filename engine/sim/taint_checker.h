#pragma once

// Judges what the engine changes of nodes, on the store itself: only its own taint and annotation,
// and the taint comes off a node that is proven clean.

#include "sim/checker.h"

namespace moonfence::sim {

class TaintChecker final : public Checker {
 public:
  using Checker::Checker;
  void on_change(const Change& change) override;

 private:
  void check_lift(const Change& change);
};

}  // namespace moonfence::sim
