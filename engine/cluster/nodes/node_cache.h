#pragma once

// NodeCache is what we believe about every node, keyed by name and fed by the node watch. It tells
// its listener when a node has to be looked at: when it fell, when it changed in a way that matters
// to an open incident, and when the belief about a down node has expired. Heartbeats, images,
// capacity and addresses change nothing (row E-03).
//
// A belief never acts: it only says "look", and what is done then rests on a live reading.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/names.h"
#include "cluster/nodes/census.h"
#include "cluster/nodes/node_view.h"
#include "kube/objects/decode.h"
#include "kube/watching/watcher.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::cluster {

// Why the listener is told to look at a node.
enum class Look {
  Fell,     // it was Ready (or fell again inside a gap of the watch) and is down or gone now
  Swept,    // down in the first list after start, or when the first policies come
  Expired,  // down, and the entry is older than the expiry
  PoliciesChanged,  // down, and those who decide about such nodes have changed
  TookOver,         // down, and until now another replica dealt with such nodes
  Asked,            // down, and somebody else wants it to be dealt with
  Changed,  // anything else that an open incident may wait for: Ready again, tainted, replaced,
            // gone after it was down
};

class NodeListener {
 public:
  virtual ~NodeListener() = default;
  virtual void look_at(const NodeView& node, Look why) = 0;
  // Called before look_at() tells of what changed the count.
  virtual void census_changed(const Census& /*census*/) {}
  // Of every node that is new, has changed or is Gone, before anything else.
  virtual void saw(const NodeView& /*node*/) {}
};

// How long a deleted node is remembered for those who ask for it anew: policies that have just come
// into force, the replica that takes over. Kubernetes itself collects its pods within two minutes.
constexpr Duration kDepartedFor = std::chrono::minutes(10);

// How many nodes there are, for policies.
struct NodeCounts {
  std::int64_t total = 0;
  std::int64_t ready = 0;
  std::int64_t schedulable = 0;  // ready and neither cordoned nor tainted against new pods
};

class NodeCache final : public kube::WatchListener {
 public:
  // `expiry`: after this long a node that is still down is looked at again; zero: never (row E-05).
  // Default for operators is 1 h. All references must outlive the cache.
  NodeCache(loop::Loop& loop, port::Log& log, Duration expiry, NodeListener& listener,
            Counting counting = {});

  // What it is to be fed with.
  [[nodiscard]] static kube::WatchTarget target(
      kube::KubeletAddresses addresses = kube::KubeletAddresses::LeftOut);

  void on_init() override;
  void on_init_apply(const nlohmann::json& object) override;
  void on_init_done() override;
  void on_apply(const nlohmann::json& object) override;
  void on_delete(const nlohmann::json& object) override;

  // Tells of every node that is down once more, but for those that were created down and wait to be
  // Ready once; and of those that were deleted lately.
  void look_again(Look why);
  // The same of this one. False: it is not down, or is one of those.
  bool look_again_at(const NodeName& name, Look why);

  // A node that is down carries nothing that could be moved: until it is up again it is not counted
  // among the fallen.
  void excuse(const NodeName& name);

  [[nodiscard]] const NodeView* find(const NodeName& name) const;
  // Tells of every node, in the order of their names.
  void each(const std::function<void(const NodeView&)>& tell) const;
  [[nodiscard]] NodeCounts counts() const;
  [[nodiscard]] const Census& census() const { return census_; }
  [[nodiscard]] bool synced() const { return synced_; }

 private:
  struct Entry {
    NodeView view;
    std::optional<Moment> expires;  // only of nodes that are down
    bool joining = false;           // created down while we run, and not Ready or expired since
  };
  using Entries = std::map<NodeName, Entry>;

  struct Departed {
    NodeView view;
    Moment at{};
  };

  [[nodiscard]] NodeView viewed(const kube::Node& node, const nlohmann::json& object) const;
  void recount(const NodeView* before, const NodeView* after);
  void keep_old_belief(const nlohmann::json& object);
  void apply(NodeView view);
  void remove(const NodeName& name);
  void forget_departed();
  void stamp(Entry& entry);
  void unstamp(const Entry& entry);
  void schedule_expiry();
  void expire_due();

  loop::Loop& loop_;
  port::Log& log_;
  const Duration expiry_;
  NodeListener& listener_;
  const Counting counting_;
  Entries entries_;
  std::map<NodeName, Departed> departed_;
  Census census_;
  std::map<NodeName, NodeView> incoming_;  // the list being received; swapped in on_init_done
  bool receiving_ = false;
  bool synced_ = false;
  std::set<std::pair<Moment, NodeName>> expiries_;
  loop::Timer expiry_timer_;
};

}  // namespace moonfence::cluster
