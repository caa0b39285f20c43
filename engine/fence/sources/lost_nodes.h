#pragma once

// LostNodes calls a node failed that is lost: its machine was not heard for as long as a binding
// says (`actOn: lost`, `after`), nothing in that time speaks for a fault of our own, its kubelet's
// Lease is overdue, and those of nearly all others are not. That is no proof that it is dead: a cut
// cable looks the same.
//
// In the quiet it does nothing but see that no machine has been silent for so long. Then it has the
// Leases read, once a second, and after a minute, if they still say nothing, every ten seconds.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "cluster/detection/kernel.h"
#include "fence/leases/peer_lease_reader.h"
#include "fence/sources/node_health_feed.h"
#include "loop/loop.h"

namespace moonfence::fence {

class LostNodes final : public NodeHealthFeed {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(250);
  static constexpr Duration kSeldom = std::chrono::seconds(10);

  // `key`: of its bindings. All outlive it.
  LostNodes(loop::Loop& loop, const cluster::Kernels& kernels, PeerLeaseReader& leases,
            Duration after, std::string key, Tell tell);
  LostNodes(const LostNodes&) = delete;
  LostNodes& operator=(const LostNodes&) = delete;
  ~LostNodes() override = default;

  void start() override;
  void stop() override;
  void tell_again() override;
  void suppose_failed(const NodeName& node) override;
  [[nodiscard]] std::unique_ptr<Question> ask(const NodeName& node, Done done) override;
  [[nodiscard]] const std::string& key() const override { return key_; }
  [[nodiscard]] bool goes_without_taint() const override { return false; }
  [[nodiscard]] const SourceHealth& source_health() const override { return source_health_; }
  [[nodiscard]] const std::string& origin() const override { return origin_; }
  [[nodiscard]] std::string lasting_fault() const override { return {}; }

 private:
  void poll();
  // Whether a machine has been silent for long enough of which the Leases may say that it is lost.
  [[nodiscard]] bool wants_leases() const;
  void look();
  // By the newest list of Leases.
  [[nodiscard]] policy::NodeHealth health_of(const NodeName& node) const;
  void take(const policy::NodeStates& states);

  loop::Loop& loop_;
  const cluster::Kernels& kernels_;
  PeerLeaseReader& leases_;
  const Duration after_;
  const std::string key_;
  const std::string origin_ = "detection";
  const Tell tell_;
  SourceHealth source_health_;
  std::map<NodeName, SourceHealth::Change> untold_;
  std::set<NodeName> supposed_failed_;
  loop::Timer next_poll_;
  bool asking_ = false;
  std::optional<Moment> asked_;
  std::shared_ptr<const void> alive_;  // null: stopped
};

}  // namespace moonfence::fence
