#pragma once

// The Lease by which kube-controller-manager shows that it is at work.

#include "sim/ground/ground.h"

namespace moonfence::sim {

class LeaderLease final {
 public:
  // Both are kube-controller-manager's own defaults.
  static constexpr Duration kRenewal = std::chrono::seconds(2);
  static constexpr Duration kDuration = std::chrono::seconds(15);

  explicit LeaderLease(const Ground& ground);
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

 private:
  void renew();

  const Ground& ground_;
  loop::Timer next_;
};

}  // namespace moonfence::sim
