#pragma once

// Judges what the engine changes of nodes, on the store itself: only its own taints and their
// annotations, and they come off a node that is proven clean.

#include <string>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class TaintChecker final : public Checker {
 public:
  using Checker::Checker;
  void on_change(const Change& change) override;

 private:
  void check_boot(const Change& change, const std::string& text);
  void check_containers(const Change& change);
  void check_detached(const Change& change);
  [[nodiscard]] bool is_needed(const Json& attachment) const;
};

}  // namespace moonfence::sim
