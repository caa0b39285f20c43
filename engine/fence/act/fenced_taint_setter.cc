#include "fence/act/fenced_taint_setter.h"

#include <utility>

namespace moonfence::fence {

using audit::Reason;

FencedTaintSetter::FencedTaintSetter(IncidentContext& surroundings, const PassContext& context,
                                     std::shared_ptr<const Authority> authority, Memory& memory)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      most_(memory.taint_failed ? 1 : kAttempts),
      alive_(std::make_shared<int>(0)) {}

void FencedTaintSetter::attempt(const DeletePod& waiting, const kube::Node& node, Ended ended) {
  const FenceMark mark = mark_for(node, context_.incident, around_.access.cluster_facts().now,
                                  authority_->reading.renewed);
  ++attempts_;
  under_way_ = true;
  around_.actions.perform(
      SetFencedTaint{.waiting = waiting, .operations = operations_to_set(node, mark)}, authority_,
      alive_, [this, waiting, ended = std::move(ended)](const ActionOutcome& outcome) {
        under_way_ = false;
        ended(after(waiting, outcome), outcome);
      });
}

FencedTaintSetter::Next FencedTaintSetter::after(const DeletePod& waiting,
                                                 const ActionOutcome& outcome) {
  switch (outcome.reason) {
    case Reason::Done:
      memory_.fenced_for = waiting;
      memory_.taint_failed = false;
      return Next::ReadNode;
    case Reason::NodeChanged:
    case Reason::OutcomeLost:
    case Reason::ReadingTooOld:
      return Next::ReadNode;
    case Reason::Refused:
    case Reason::Deposed:
    case Reason::Retryable:
      given_up_ = true;
      return Next::GiveUp;
    default:
      --attempts_;
      return Next::Refuse;
  }
}

bool FencedTaintSetter::is_lost() const {
  return memory_.fenced_for && needs_quarantine(*authority_) && !is_given_up();
}

}  // namespace moonfence::fence
