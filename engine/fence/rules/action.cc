#include "fence/rules/action.h"

#include <utility>

#include "base/overloaded.h"
#include "fence/rules/our_taints.h"
#include "fence/rules/triggers.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

Ground ground_of(const DeletePod& verdict) {
  return {.policy = verdict.policy,
          .digest = verdict.policy_digest,
          .set = verdict.set_digest,
          .judged = verdict.judged,
          .proof = &verdict.proof,
          .drivers = &verdict.drivers,
          .storage = verdict.storage};
}

Ground ground_of(const DeletePod& verdict, const AttachmentCase& target) {
  return on_volume(ground_of(verdict), target);
}

}  // namespace

std::optional<Reason> refuse(const Action& action, const Authority& authority, Moment now) {
  return std::visit(
      Overloaded{
          [&](const DeletePod& it) {
            return refuse_pod_deletion(authority, ground_of(it), it.pod, now);
          },
          [&](const FailPod& it) {
            const auto reason =
                refuse_pod_deletion(authority, ground_of(it.deletion), it.deletion.pod, now);
            return reason || authority.protections->fail_pods
                       ? reason
                       : std::optional(Reason::FailingNotServed);
          },
          [&](const DeleteAttachment& it) {
            return refuse_attachment_deletion(authority, ground_of(it.verdict), it.verdict.pod,
                                              it.target, now);
          },
          [&](const ReleaseVolume& it) {
            return refuse_release(authority, ground_of(it.verdict), it.verdict.pod, it.target, now);
          },
          [&](const SetFencedTaint& it) {
            return refuse_quarantine(authority, ground_of(it.waiting), it.waiting.pod, now);
          },
          [&](const SetOutOfService& it) {
            const Ground ground = {
                .policy = it.policy, .digest = it.policy_digest, .set = it.set_digest};
            return refuse_out_of_service(authority, ground, *it.eviction, now);
          },
          [&](const TellFencer& it) {
            return refuse_order(authority, ground_of(it.waiting), it.waiting.pod, it.target, now);
          },
          [&](const SetSilentTaint& it) { return refuse_silent_taint(authority, *it.right, now); },
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

namespace {

// As it is now, where some is demanded.
std::string evidence_told(const Authority& authority, const DeletePod& verdict,
                          const std::set<std::string>& storage) {
  const bool of_engine =
      authority.protections != nullptr &&
      !policy::to_text(authority.protections->proof.of(verdict.pod.ref.space, verdict.drivers))
           .empty();
  return of_engine || is_by_fencers(authority.source) || !policy::to_text(verdict.proof).empty()
             ? evidence_text(sightings_of(authority, storage))
             : std::string();
}

}  // namespace

std::string evidence_told(const Authority& authority, const DeletePod& verdict) {
  return evidence_told(authority, verdict, verdict.storage);
}

Record record_about(const char* action, const Authority& authority, const DeletePod& verdict) {
  Record record = about_node(action, authority, verdict);
  record.pod = verdict.pod.ref;
  record.pod_uid = verdict.pod.uid;
  record.evidence = evidence_told(authority, verdict);
  return record;
}

namespace {

Record about_attachment(const char* action, const Authority& authority, const DeletePod& verdict,
                        const kube::Attachment& attachment) {
  Record record = record_about(action, authority, verdict);
  record.evidence = evidence_told(authority, verdict, {attachment.attacher});
  record.attachment = attachment.name;
  record.attachment_uid = attachment.uid;
  return record;
}

}  // namespace

namespace {

// Null: it rests on none.
const DeletePod* verdict_of(const Action& action) {
  return std::visit(Overloaded{[](const DeletePod& it) { return &it; },
                               [](const FailPod& it) { return &it.deletion; },
                               [](const DeleteAttachment& it) { return &it.verdict; },
                               [](const ReleaseVolume& it) { return &it.verdict; },
                               [](const SetFencedTaint& it) { return &it.waiting; },
                               [](const TellFencer& it) { return &it.waiting; },
                               [](const auto&) { return static_cast<const DeletePod*>(nullptr); }},
                    action);
}

}  // namespace

std::string refusal_text(const Action& action, const Authority& authority, Reason reason) {
  if (const auto* taint = std::get_if<SetOutOfService>(&action)) {
    return reason == Reason::ProofMissing ? missing_proof_of_any(authority, *taint->eviction)
                                          : std::string();
  }
  if (const auto* order = std::get_if<TellFencer>(&action)) {
    return reason == Reason::OnHold ? hold_on_any(authority, order->target) : std::string();
  }
  const DeletePod* verdict = verdict_of(action);
  if (verdict == nullptr) {
    return {};
  }
  if (reason == Reason::ProofMissing) {
    const auto* detachment = std::get_if<DeleteAttachment>(&action);
    const auto* release = std::get_if<ReleaseVolume>(&action);
    const Ground ground = detachment != nullptr ? ground_of(*verdict, detachment->target)
                          : release != nullptr  ? ground_of(*verdict, release->target.attachment)
                                                : ground_of(*verdict);
    return missing_proof(authority, ground, verdict->pod);
  }
  // What is released is held by nobody's verdict any more.
  const bool is_deletion = std::holds_alternative<DeletePod>(action) ||
                           std::holds_alternative<FailPod>(action) ||
                           std::holds_alternative<DeleteAttachment>(action);
  return reason == Reason::OnHold && is_deletion
             ? hold_text(authority.node, authority.reading.hold, verdict->pod, authority.namespaces,
                         authority.held_pods)
             : std::string();
}

namespace {

Form form_of_failing(const DeletePod& deletion, const Authority& authority) {
  return {.told = record_about("fail_pod", authority, deletion),
          .intent = Reason::PolicyFailsPod,
          .subject = deletion.pod.uid,
          .why = deletion.why,
          .is_step = false,
          .overtaken = Reason::PodChanged};
}

Form form_of_order(const TellFencer& order, const Authority& authority) {
  const bool isolates = order.target.order.aim.power == policy::Power::Isolated;
  return {.told = about_node(isolates ? "isolate" : "switch_off", authority, order.waiting),
          .intent = isolates ? Reason::Isolates : Reason::SwitchesOff,
          .subject = authority.node_uid,
          .why = "for pod " + order.waiting.pod.ref.text() + ", by fencer " + order.target.fencer +
                 ": " + order.target.order.request.text(),
          .done = isolates ? "accepted; whether the storage refuses it is read"
                           : "accepted; whether it is off is read",
          .is_step = false};
}

}  // namespace

Form form_of(const Action& action, const Authority& authority) {
  return std::visit(
      Overloaded{
          [&](const DeletePod& it) -> Form {
            return {.told = record_about("delete_pod", authority, it),
                    .intent = Reason::PolicyDeletesPod,
                    .subject = it.pod.uid,
                    .why = it.why};
          },
          [&](const FailPod& it) { return form_of_failing(it.deletion, authority); },
          [&](const DeleteAttachment& it) -> Form {
            const kube::Attachment& attachment = it.target.attachment;
            return {
                .told = about_attachment("delete_attachment", authority, it.verdict, attachment),
                .intent = it.target.before_pod ? Reason::PolicyDeletesAttachments
                                               : Reason::PolicyDeletesPodAndAttachments,
                .subject = attachment.uid,
                .why = it.verdict.why};
          },
          [&](const ReleaseVolume& it) -> Form {
            const kube::Attachment& attachment = it.target.attachment.attachment;
            return {.told = about_attachment("release_volume", authority, it.verdict, attachment),
                    .intent = Reason::PolicyReleases,
                    .subject = attachment.uid,
                    .why = it.verdict.why,
                    .refused = it.target.name,
                    .done = it.target.name,
                    .is_step = false,
                    .overtaken = Reason::ReleaseOvertaken};
          },
          [&](const SetFencedTaint& it) -> Form {
            return {.told = about_node("set_quarantine", authority, it.waiting),
                    .intent = Reason::SetsQuarantine,
                    .subject = authority.node_uid,
                    .why = "before the deletion of pod " + it.waiting.pod.ref.text(),
                    .is_step = false};
          },
          [&](const SetOutOfService& it) -> Form {
            Record told = about_node("taint_out_of_service", authority, it);
            told.evidence = it.evidence;
            return {.told = std::move(told),
                    .intent = Reason::SetsOutOfService,
                    .subject = authority.node_uid,
                    .why = it.why};
          },
          [&](const TellFencer& it) { return form_of_order(it, authority); },
          [&](const SetSilentTaint& it) -> Form {
            return {.told = about_node("taint_silent", authority, IncidentId()),
                    .intent = Reason::SetsSilentTaint,
                    .subject = authority.node_uid,
                    .why = it.right->why,
                    .is_step = false,
                    .fences = false};
          },
          [&](const LiftTaints& it) -> Form {
            return {.told = about_node(it.of_silence ? "lift_silent_taint" : "lift_quarantine",
                                       authority, it.right->incident),
                    .intent = it.of_silence ? Reason::LiftsSilentTaint : Reason::LiftsQuarantine,
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
