#pragma once

// PeerLeaseReader reads the Leases of all nodes for whoever is about to act on one of them, one
// list at a time and at most one a second, whoever asks, and keeps the PeerLeases. They come from
// the server's cache, where that is proven to be young: a list of any age would show renewals that
// were made before the one that was seen last, by another server.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cluster/nodes/standing.h"
#include "fence/leadership/leadership.h"
#include "fence/leases/peer_leases.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class PeerLeaseReader {
 public:
  // How long one list serves all. Nodes that fall silent within it are not dead by it anyway.
  static constexpr Duration kShared = std::chrono::seconds(1);
  // What a list may take, and how much longer than one read on a slow server; a reading that is too
  // old by then is repeated, the list is not.
  static constexpr Duration kLimit = std::chrono::seconds(5);
  static constexpr int kReads = 3;

  // How old the cache may be; on a slow server it is known of less often.
  static constexpr Duration kYoung = std::chrono::seconds(10);

  using Done = std::function<void(const Result<void>&)>;

  // `standing`: what a node counts for that is believed to be up; null: it is down, or not known.
  // `server_now`: the API server's clock. `leadership`: how slow the server is. `revisions`
  // must outlive it.
  PeerLeaseReader(loop::Loop& loop, kube::Reader& reader, const Leadership& leadership,
                  std::function<WallTime()> server_now, const kube::Revisions& revisions,
                  std::function<const cluster::Standing*(const NodeName&)> standing);
  PeerLeaseReader(const PeerLeaseReader&) = delete;
  PeerLeaseReader& operator=(const PeerLeaseReader&) = delete;

  // The store may have gone back in time.
  void forget() {
    peer_leases_.forget();
    good_.reset();
  }

  // `done` hears when there is a list that was asked for within the last second, or why there is
  // none, at the end of this turn or later, unless `listener` has died by then.
  void ask(std::weak_ptr<const void> listener, Done done);

  // Of the newest list: nodes believed to be up that are as silent as one with this Lease, or none,
  // which was seen to stand still for `at_least`.
  struct Silent {
    std::int64_t workers = 0;
    std::int64_t machines = 0;  // these and dedicated ones
  };
  [[nodiscard]] Silent silent_beside(const kube::Lease* lease, Duration at_least) const;
  // By it, this node's Lease is overdue and those of the others are not.
  [[nodiscard]] bool is_alone_overdue(const NodeName& node) const;

 private:
  struct Waiting {
    std::weak_ptr<const void> listener;
    Done done;
  };
  void list(kube::ListFrom from);
  void arrived(const Result<kube::LeaseSigns>& signs, Moment sent, WallTime server);
  [[nodiscard]] bool is_young(const kube::LeaseSigns& signs, Moment sent) const;

  loop::Loop& loop_;
  kube::Reader& reader_;
  const Leadership& leadership_;
  const std::function<WallTime()> server_now_;
  const kube::Revisions& revisions_;
  const std::function<const cluster::Standing*(const NodeName&)> standing_;
  PeerLeases peer_leases_;
  std::optional<Moment> good_;  // when the newest list was asked for
  std::vector<Waiting> waiting_;
  kube::CallHandle call_;
};

}  // namespace moonfence::fence
