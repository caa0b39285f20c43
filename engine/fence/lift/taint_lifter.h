#pragma once

// TaintLifter takes care of every node that carries a taint of ours (fence/rules/our_taints),
// whoever of us set it and whatever became of its incident: it performs what
// fence/lift/lift_machine decides. It is told about nodes by the node cache and acts only while
// this replica does. At most kAtOnce nodes are looked at side by side; the others wait for their
// turn.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "cluster/nodes/node_cache.h"
#include "fence/act/incident_context.h"
#include "loop/turn_queue.h"

namespace moonfence::fence {

class TaintLifter final : public cluster::NodeListener {
 public:
  static constexpr std::size_t kAtOnce = 4;

  // The surroundings must outlive it. It acts until told otherwise.
  // A node that is Ready and called failed by somebody whose word counts is not back.
  using IsFailed = std::function<bool(const NodeName&)>;
  explicit TaintLifter(IncidentContext surroundings, IsFailed is_failed = {});
  ~TaintLifter() override;
  TaintLifter(const TaintLifter&) = delete;
  TaintLifter& operator=(const TaintLifter&) = delete;

  void look_at(const cluster::NodeView& node, cluster::Look why) override;
  void lead();
  // Says in the log when the right to ask kubelets is missing although nodes may be tainted, before
  // one fails and keeps its taint for that.
  void check_right();
  void step_down();

  // Nodes that carry our mark, and those of them that are back and not proven clean.
  [[nodiscard]] std::size_t fenced() const { return patients_.size(); }
  [[nodiscard]] std::size_t doubtful() const;
  // The latter, and what is not proven of each.
  [[nodiscard]] std::map<NodeName, std::string> kept() const;

 private:
  class Patient;
  [[nodiscard]] bool is_failed(const NodeName& name) const {
    return is_failed_ && is_failed_(name);
  }
  void queue(const NodeName& name);
  void admit_soon();
  void admit();

  IncidentContext around_;
  const IsFailed is_failed_;
  loop::TurnQueue kubelets_;  // that are asked
  std::map<NodeName, std::unique_ptr<Patient>> patients_;
  std::deque<NodeName> queue_;
  bool leads_ = true;
  kube::CallHandle right_call_;
  loop::Timer admit_soon_;
};

}  // namespace moonfence::fence
