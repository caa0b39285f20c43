#pragma once

// RollCall reads the Leases of all nodes for whoever is about to act on one of them, one list at a
// time and at most one a second, whoever asks, and keeps the Roll.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cluster/standing.h"
#include "fence/roll.h"
#include "kube/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class RollCall {
 public:
  // How long one list serves all. Nodes that fall silent within it are not dead by it anyway.
  static constexpr Duration kShared = std::chrono::seconds(1);
  // What a list may take; a reading that is too old by then is repeated, the list is not.
  static constexpr Duration kLimit = std::chrono::seconds(5);

  using Done = std::function<void(const Result<void>&)>;

  // `standing`: what a node counts for that is believed to be up; null: it is down, or not known.
  // `server_now`: the API server's clock.
  RollCall(loop::Loop& loop, kube::Reader& reader, std::function<WallTime()> server_now,
           std::function<const cluster::Standing*(const NodeName&)> standing);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  // `done` hears when there is a list that was asked for within the last second, or why there is
  // none, at the end of this turn or later, unless `listener` has died by then.
  void ask(std::weak_ptr<const void> listener, Done done);

  // Of the newest list: nodes believed to be up that are as silent as a node whose Lease was
  // renewed then and that is Unknown since `changed`.
  struct Silent {
    std::int64_t workers = 0;
    std::int64_t machines = 0;  // these and dedicated ones
  };
  [[nodiscard]] Silent silent_beside(std::optional<WallTime> renewed,
                                     std::optional<WallTime> changed) const;

 private:
  struct Waiting {
    std::weak_ptr<const void> listener;
    Done done;
  };
  void arrived(const Result<kube::LeaseSigns>& signs, Moment sent, WallTime server);

  loop::Loop& loop_;
  kube::Reader& reader_;
  const std::function<WallTime()> server_now_;
  const std::function<const cluster::Standing*(const NodeName&)> standing_;
  Roll roll_;
  std::optional<Moment> good_;  // when the newest list was asked for
  std::vector<Waiting> waiting_;
  kube::CallHandle call_;
};

}  // namespace moonfence::fence
