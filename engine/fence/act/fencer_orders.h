#pragma once

// FencerOrders has a fencer switch the machine of a node off, or have its storage refuse it, where
// a pod would be deleted if only that were known. The machine may be alive: behind a cut cable its
// containers write on. It happens at the end of a pass, when all pods of the node have been judged,
// and what came of it is not believed: what is so is read (fence/fencers/power_watch).

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fence/act/incident_context.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/rules/action.h"

namespace moonfence::fence {

class FencerOrders {
 public:
  // Until anything is told after a switch-off, or the same once more. A controller takes up
  // to half a minute, and one that is told twice might be told in the middle of a restart.
  static constexpr Duration kAgain = std::chrono::seconds(30);
  // How often in a pass the node is read for it.
  static constexpr int kReadings = 3;

  enum class Next {
    Nothing,   // or nothing more in this pass
    Wait,      // `changed` is called
    ReadNode,  // its reading is too old
  };

  // All references must outlive it.
  FencerOrders(IncidentContext& surroundings, std::shared_ptr<const Authority> authority,
               Memory& memory, const PodEvaluation& pod_evaluation, std::function<void()> changed);

  // A pod of the node, with its JSON.
  void saw(const kube::Pod& pod);
  // `complete`: all pods of the node are known as they are; they were asked for at `listed`, and
  // it took so long to know what policies need.
  [[nodiscard]] Next go_on(bool complete, Moment listed, Duration took, PassResult& result);
  // Of the pods that would end; none when it has nothing to do.
  [[nodiscard]] std::set<Namespace> spaces() const;
  // Nobody is called back from now on.
  void retire() { alive_.reset(); }

 private:
  [[nodiscard]] std::optional<TellFencer> order() const;
  // When that may be told, if something was just told.
  [[nodiscard]] std::optional<Moment> told_until(const PowerOrder& order) const;
  [[nodiscard]] Next read_node(PassResult& result);
  // Of what was tried.
  [[nodiscard]] Next ended(const ActionOutcome& outcome, PassResult& result);
  [[nodiscard]] Next after(const ActionOutcome& outcome, PassResult& result);
  // What speaks against it before it is tried.
  void tell(const TellFencer& order, audit::Reason reason, const std::string& more);

  IncidentContext& around_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const PodEvaluation& pod_evaluation_;
  std::function<void()> changed_;
  const bool may_act_;
  std::shared_ptr<std::vector<kube::Pod>> pods_ = std::make_shared<std::vector<kube::Pod>>();
  std::optional<PowerOrder> told_;        // last
  std::optional<ActionOutcome> outcome_;  // not looked at yet
  int readings_ = 0;
  bool waits_ = false;
  bool sending_ = false;
  bool ended_ = false;
  std::shared_ptr<const void> alive_;
};

}  // namespace moonfence::fence
