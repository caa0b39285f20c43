#pragma once

// SilentTaints keeps new pods off a node as soon as its machine is silent to us and to another
// replica (cluster/witness), seconds before Kubernetes finds out: it sets
// moonfence.io/silent:NoSchedule, and takes it off at the first sign of the machine. Nothing is
// deleted by it, and no pod leaves for it. Off unless the configuration says `silentTaint: on`.
//
// A silence may be a cable or a switch. So at most one node, or 1 % of them, is kept free by this
// taint alone at a time, and it is set ten times an hour at most; what is beyond that is told. The
// brake and our doubts about ourselves hold it back as they do a deletion.
//
// The taint goes when the machine answers. When nobody can find out whether it does, it goes when
// the node's kubelet has said Ready since it was set. That is done with `silentTaint: off`, too:
// another leader may have left it.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "cluster/nodes/node_view.h"
#include "fence/act/incident_context.h"
#include "loop/loop.h"

namespace moonfence::fence {

// The nodes, as the watch shows them.
struct WatchedNodes {
  std::function<std::size_t()> count;
  // Null: it is not known. What it points to lives until the next turn.
  std::function<const cluster::NodeView*(const NodeName&)> find;
};

class SilentTaints {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(250);
  static constexpr std::size_t kInAnHour = 10;  // of this leader
  // What failed is tried again after this, then after twice as long, and so on.
  static constexpr Duration kPause = std::chrono::seconds(5);
  static constexpr Duration kLongestToSet = std::chrono::minutes(5);
  static constexpr Duration kLongestToLift = std::chrono::minutes(1);

  // The surroundings must outlive it. It does nothing before lead().
  SilentTaints(IncidentContext surroundings, bool on, WatchedNodes nodes);
  ~SilentTaints();
  SilentTaints(const SilentTaints&) = delete;
  SilentTaints& operator=(const SilentTaints&) = delete;

  void saw(const cluster::NodeView& node);
  void lead();
  void step_down();

  // Nodes with the taint.
  [[nodiscard]] std::size_t tainted() const { return marked_.size(); }

 private:
  class Work;  // one node that is being tainted or relieved
  enum class Act { Set, Lift };
  enum class End {
    Done,
    NotNeeded,  // it is there, or another taint is; it is gone
    NotHeard,   // nothing speaks for the machine
    Raced,      // the node was changed meanwhile
    Held,       // somebody wants nobody to touch the node
    Failed,
  };
  // When a node's turn is, for one act.
  class Turns {
   public:
    [[nodiscard]] bool is_due(const NodeName& node, Moment now) const;
    void put_off(const NodeName& node, Moment now, Duration pause);
    // Twice as long as the last time.
    void put_off_longer(const NodeName& node, Moment now, Duration longest);
    // What had its turn and did not take it.
    void forget(Moment now);
    void clear() { turns_.clear(); }

   private:
    struct Turn {
      Duration pause{};
      Moment at{};
    };
    std::map<NodeName, Turn> turns_;
  };

  void poll();
  void set_timer();
  [[nodiscard]] bool watches() const { return on_ && around_.in_force.kernels != nullptr; }
  void taint_the_silent();
  void relieve_the_heard();
  [[nodiscard]] bool answers(const NodeName& node) const;
  // By whoever knows best: `ready` is Kubernetes' word.
  [[nodiscard]] bool is_heard(const NodeName& node, bool ready) const;
  [[nodiscard]] std::size_t free_places();
  void tell_withheld(std::set<NodeName> withheld);
  void begin(const cluster::NodeView& node, Act act);
  void ended(const NodeName& node, End end);
  void ended_setting(const NodeName& node, End end);
  void ended_lifting(const NodeName& node, End end);

  IncidentContext around_;
  const bool on_;
  const WatchedNodes nodes_;
  std::set<NodeName> marked_;  // with our mark by the watch, or by what we did a moment ago
  std::set<NodeName> held_;    // of these: a hold keeps the taint there, and that was told
  std::map<NodeName, std::unique_ptr<Work>> works_;
  Turns to_set_;
  Turns to_lift_;
  std::deque<Moment> set_at_;    // within the last hour
  std::set<NodeName> withheld_;  // told, and silent since
  bool leads_ = false;
  loop::Timer timer_;
};

}  // namespace moonfence::fence
