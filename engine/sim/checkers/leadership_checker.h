#pragma once

// Who acts, of several replicas: whoever holds the Lease. A call is judged in the moment in which
// it is done, by the Lease object itself and not by what its sender believes. What is on the wire
// for longer than a call may take cannot be called back and is not judged.

#include <cstdint>
#include <map>
#include <string>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class LeadershipChecker final : public Checker {
 public:
  explicit LeadershipChecker(Bench& bench) : Checker(bench) {}
  void on_left(const WireRequest& request) override;
  void on_answered(const WireRequest& request, const ServerAnswer& answer) override;
  void on_ended(const WireRequest& request) override;
  void on_change(const Change& change) override;

 private:
  struct Call {
    Life life;
    Moment until{};  // by then it is over, or cannot be called back
  };
  [[nodiscard]] bool concerns(const WireRequest& request) const;
  [[nodiscard]] bool holds_by_lost_record(const std::string& replica) const;

  std::map<std::uint64_t, Call> under_way_;  // by exchange
  // Who held the Lease when the store went back in time, and how long his term lasts at most.
  std::string lost_holder_;
  Moment lost_until_{};
};

// A call that ends something or changes a node.
[[nodiscard]] bool is_destructive(const WireRequest& request);

}  // namespace moonfence::sim
