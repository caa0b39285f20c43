#pragma once

// SelfTest feeds fence::SelfDoubt: it hears of every API call, and once a second gathers the signs
// of the watches and of our own Lease. What comes out it tells the log and the metrics.

#include <functional>

#include "app/policies/policy_feed.h"
#include "app/telling/metrics.h"
#include "fence/rules/self_doubt.h"
#include "kube/leader_election/elector.h"
#include "kube/watching/watcher.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::app {

class SelfTest final : public kube::CallObserver {
 public:
  struct Subjects {
    kube::Watcher& nodes;
    const PolicyFeed* policies;    // null: --policy
    const kube::Elector* elector;  // null: --leader-elect=false
    bool went_back;                // the store did, and what follows from it is not over
    std::function<void()> trusted_again;
  };

  SelfTest(loop::Loop& loop, port::Log& log, Metrics& metrics)
      : loop_(loop), log_(log), metrics_(metrics), born_(loop.now()) {}

  // It speaks against the API server or our line to it; a write may be refused by a webhook.
  [[nodiscard]] static bool is_failure(port::Method method, int status) {
    return status == 0 || (method == port::Method::Get && status >= 500);
  }
  void on_exchange(port::Method method, int status, Duration took,
                   std::optional<WallTime> server_date) override;
  // The store did, in this moment.
  void went_back() { doubt_.went_back(); }
  // To be called once a second, and first before anything can happen.
  void look(const Subjects& subjects);

  [[nodiscard]] const fence::SelfDoubt& doubt() const { return doubt_; }

 private:
  [[nodiscard]] fence::SelfDoubt::Signs signs_of(const Subjects& subjects);
  void tell(const fence::SelfDoubt::Outcome& outcome);

  loop::Loop& loop_;
  port::Log& log_;
  Metrics& metrics_;
  const Moment born_;          // silence counts from here at the earliest
  Moment nodes_watched_at_{};  // a stream was open
  fence::SelfDoubt doubt_;
};

}  // namespace moonfence::app
