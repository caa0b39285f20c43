#include "fence/action.h"

#include <utility>

#include "base/overloaded.h"
#include "fence/quarantine.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

Ground ground_of(const DeletePod& verdict) {
  return {.policy = verdict.policy,
          .digest = verdict.policy_digest,
          .set = verdict.set_digest,
          .judged = verdict.judged};
}

}  // namespace

std::optional<Reason> refuse(const Action& action, const Authority& authority, Moment now) {
  return std::visit(
      Overloaded{
          [&](const SetFencedTaint& it) {
            return refuse_quarantine(authority, ground_of(it.waiting), it.waiting.pod, now);
          },
          [&](const SetOutOfService& it) {
            const Ground ground = {
                .policy = it.policy, .digest = it.policy_digest, .set = it.set_digest};
            return refuse_out_of_service(authority, ground, *it.eviction, now);
          },
          [&](const LiftTaints& it) { return refuse_lift(*it.right, now); },
      },
      action);
}

namespace {

Record about_node(const char* action, const Authority& authority, const IncidentId& incident) {
  Record record;
  record.action = action;
  record.node = authority.node;
  record.node_uid = authority.node_uid;
  record.incident = incident;
  return record;
}

// `by`: whoever names a policy.
template <class By>
Record about_node(const char* action, const Authority& authority, const By& by) {
  Record record = about_node(action, authority, by.incident);
  record.policy = by.policy;
  record.policy_digest = by.policy_digest;
  record.attempt = by.attempt;
  return record;
}

}  // namespace

Form form_of(const Action& action, const Authority& authority) {
  return std::visit(
      Overloaded{
          [&](const SetFencedTaint& it) -> Form {
            return {.told = about_node("set_quarantine", authority, it.waiting),
                    .intent = Reason::SetsQuarantine,
                    .subject = authority.node_uid,
                    .why = "before the deletion of pod " + it.waiting.pod.ref.text(),
                    .is_step = false};
          },
          [&](const SetOutOfService& it) -> Form {
            return {.told = about_node("taint_out_of_service", authority, it),
                    .intent = Reason::SetsOutOfService,
                    .subject = authority.node_uid,
                    .why = it.why};
          },
          [&](const LiftTaints& it) -> Form {
            return {.told = about_node("lift_quarantine", authority, it.right->incident),
                    .intent = Reason::LiftsQuarantine,
                    .subject = authority.node_uid,
                    .why = it.right->why,
                    .done = changes_taints(it.operations)
                                ? ""
                                : "somebody else had taken it off; only our mark was removed",
                    .is_step = false,
                    .fences = false};
          },
      },
      action);
}

bool ActionOutcome::settled() const {
  return reason == Reason::Done || reason == Reason::MarkedOnly || reason == Reason::AlreadyGone ||
         reason == Reason::Replaced;
}

std::string ActionOutcome::about(const std::string& what) const {
  return what + ": " + std::string(code(reason)) + (text.empty() ? "" : "; " + text);
}

// What the engine's own configuration says, and what never changes of an object.
bool is_hopeless(Reason reason) {
  return reason == Reason::ProtectedNamespace || reason == Reason::DriverNotDeclared ||
         reason == Reason::AttachmentMismatch;
}

}  // namespace moonfence::fence
