#pragma once

// FencedTaintSetter sets our taint in the middle of a pass, before the deletion that waits for it
// and by its right, and sets it again when somebody drops it. Between its attempts the node is read
// anew.

#include <functional>
#include <memory>

#include "fence/act/incident_context.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/rules/action.h"

namespace moonfence::fence {

class FencedTaintSetter {
 public:
  // How often in a pass our taint is tried to be set; once where the pass before has given it up,
  // or an answer that is always "it changed" would be asked for three times a second.
  static constexpr int kAttempts = 3;

  // What is to come after an attempt.
  enum class Next {
    ReadNode,  // the live node must carry the taint; or it changed meanwhile
    GiveUp,    // nothing is deleted in this pass
    Refuse,    // the guard's word on the deletion, to which another one may not be subject
  };
  using Ended = std::function<void(Next, const ActionOutcome&)>;

  // All references must outlive it.
  FencedTaintSetter(IncidentContext& surroundings, const PassContext& context,
                    std::shared_ptr<const Authority> authority, Memory& memory);

  // No attempt is left, or none will succeed.
  [[nodiscard]] bool is_given_up() const { return given_up_ || attempts_ == most_; }
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  // `node` as it was read last. `ended` hears it in this turn when the guard refuses.
  void attempt(const DeletePod& waiting, const kube::Node& node, Ended ended);
  // kube-controller-manager, which writes the whole list of taints from a picture that may be old,
  // can drop ours: what was deleted would come back to a node that nobody watches over.
  [[nodiscard]] bool is_lost() const;
  // Nobody is called back from now on.
  void retire() { alive_.reset(); }

 private:
  [[nodiscard]] Next after(const DeletePod& waiting, const ActionOutcome& outcome);

  IncidentContext& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const int most_;
  int attempts_ = 0;
  bool under_way_ = false;
  bool given_up_ = false;
  std::shared_ptr<const void> alive_;
};

}  // namespace moonfence::fence
