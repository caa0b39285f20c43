#pragma once

// LostNodes calls a node failed that is lost: its machine was not heard for as long as a binding
// says (`actOn: lost`, `after`), nothing in that time speaks for a fault of our own, its kubelet's
// Lease is overdue, and those of nearly all others are not. That is no proof that it is dead: a cut
// cable looks the same.
//
// For bindings with `actOn: off` the fencers of a machine that is not heard are asked at once, and
// one that they call off has failed then. Nothing is done by it before they do (fence/rules/guard).
//
// In the quiet it does nothing but see that no machine has been silent for so long. Then it has the
// Leases read, once a second, and after a minute, if they still say nothing, every ten seconds.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cluster/detection/kernel.h"
#include "fence/leases/peer_lease_reader.h"
#include "fence/proof/powers.h"
#include "fence/sources/node_health_feed.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class LostNodes final : public NodeHealthFeed {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(250);
  static constexpr Duration kSeldom = std::chrono::seconds(10);
  // Between two readings of a Node for its fencers; after a minute kSeldom.
  static constexpr Duration kLookEvery = std::chrono::seconds(1);
  // How long a node stays failed that was off or lost while neither can be shown: its controller or
  // the API server does not answer.
  static constexpr Duration kStays = std::chrono::minutes(1);
  // Of so many silent machines at a time.
  static constexpr std::size_t kLooksAtOnce = 8;

  struct Surroundings {
    loop::Loop& loop;
    const cluster::Kernels& kernels;
    PeerLeaseReader& leases;
    kube::Reader& reader;
    Powers* powers = nullptr;  // null: no fencer is asked
  };
  // `key`: of its bindings. All outlive it.
  LostNodes(const Surroundings& surroundings, Duration after, std::string key, Tell tell);
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
  // A Node whose fencers are asked.
  struct Looked {
    std::optional<Moment> at = std::nullopt;  // when it was last asked for
    Uid uid = {};
    kube::CallHandle call = {};
  };
  void poll();
  // Whether a machine has been silent for long enough of which the Leases may say that it is lost.
  [[nodiscard]] bool wants_leases() const;
  void ask_fencers();
  void look_at(const NodeName& node);
  void look();
  // By the newest list of Leases, and what fencers say.
  [[nodiscard]] policy::NodeHealth health_of(const NodeName& node) const;
  [[nodiscard]] bool is_lost(const NodeName& node) const;
  // It was off or lost a while ago, and was not heard since.
  [[nodiscard]] bool stays_failed(const NodeName& node);
  // By a fencer that was asked since it is silent.
  [[nodiscard]] bool is_off(const NodeName& node) const;
  void take(const policy::NodeStates& states);

  const Surroundings around_;
  const Duration after_;
  const std::string key_;
  const std::string origin_ = "detection";
  const Tell tell_;
  SourceHealth source_health_;
  std::map<NodeName, SourceHealth::Change> untold_;
  std::map<NodeName, Looked> looked_;
  std::map<NodeName, Moment> proven_;  // off or lost: when it last was
  std::set<NodeName> supposed_failed_;
  loop::Timer next_poll_;
  bool asking_ = false;
  std::optional<Moment> asked_;
  std::shared_ptr<const void> alive_;  // null: stopped
};

}  // namespace moonfence::fence
