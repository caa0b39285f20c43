#include "fence/judge/verdict_log.h"

#include <utility>

#include "fence/judge/pod_evaluation.h"
#include "fence/judge/shadow.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using policy::Binding;
using policy::Verdict;

Reason reason_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::Skip:
      return Reason::PolicySkips;
    case Verdict::Kind::Forbid:
      return Reason::PolicyForbids;
    case Verdict::Kind::Hold:
      return Reason::PolicyHolds;
    case Verdict::Kind::Wait:
      return Reason::PolicyWaits;
    case Verdict::Kind::DeletePod:
      return Reason::PolicyDeletesPod;
    case Verdict::Kind::DeletePodAndAttachments:
      return Reason::PolicyDeletesPodAndAttachments;
    case Verdict::Kind::DeleteAttachments:
      return Reason::PolicyDeletesAttachments;
  }
  return Reason::PolicyFailed;
}

std::string key_of(const Binding& binding) {
  return binding.name + "@" + binding.digest + " " + std::string(policy::to_string(binding.mode));
}

const Binding& VerdictLog::binding(const Opinion& opinion) const {
  return context_.set->bindings[opinion.binding];
}

void VerdictLog::conflict(const Decision& decision, const kube::Pod& pod) {
  if (decision.overruled == nullptr) {
    return;
  }
  verdict(pod, &binding(*decision.overruled), Reason::PolicyConflict,
          "another policy that stands before it wants another action; this one wanted: " +
              decision.overruled->verdict->reason);
}

void VerdictLog::stop(const Decision& decision, const kube::Pod& pod) {
  if (decision.stopped == nullptr) {
    return;
  }
  const Binding& by = binding(*decision.by);
  if (!decision.by->verdict) {
    refusal(pod, *decision.stopped,
            by.policy == nullptr ? Reason::GuardBroken : Reason::GuardFailed,
            "policy " + by.name + " could not say whether it is against it");
    return;
  }
  const Verdict& verdict = *decision.by->verdict;
  const bool waits = verdict.kind == Verdict::Kind::Wait;
  const std::string_view word = waits                                   ? " waits: "
                                : verdict.kind == Verdict::Kind::Forbid ? " forbids it: "
                                                                        : " holds it: ";
  const Reason reason = decision.by->unproven ? Reason::ProofMissing
                        : waits               ? Reason::PolicyConflict
                                              : reason_of(verdict.kind);
  refusal(pod, *decision.stopped, reason, "policy " + by.name + std::string(word) + verdict.reason);
}

void VerdictLog::shadow(const Decision& observed, const Decision& enforced, const kube::Pod& pod) {
  const auto difference = shadow_difference(observed, enforced);
  if (!difference) {
    return;
  }
  Record record = record_of(Record::Kind::Verdict, Reason::ShadowDiffers,
                            observed.by == nullptr ? nullptr : &binding(*observed.by));
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.action = difference->observed;
  record.instead_of = difference->enforced;
  record.text = difference->text;
  (void)write_news("shadow", record.action + " " + record.instead_of, record);
}

bool VerdictLog::verdict(const kube::Pod& pod, const Binding* by, Reason reason,
                         const std::string& text) {
  Record record = record_of(Record::Kind::Verdict, reason, by);
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.text = text;
  // A conflict comes on top of the policy's own verdict.
  return write_news((by == nullptr ? std::string() : key_of(*by)) +
                        (reason == Reason::PolicyConflict ? " conflict" : " verdict"),
                    text, record);
}

void VerdictLog::overdue(const kube::Pod& pod, const Binding& by, const std::string& text) {
  Record record = record_of(Record::Kind::IncidentHeld, Reason::DetachOverdue, &by);
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.text = text;
  write_news(key_of(by) + " overdue", {}, record);
}

void VerdictLog::refusal(const kube::Pod& pod, const Opinion& wanted, Reason reason,
                         const std::string& text) {
  Record record = record_of(Record::Kind::Refusal, reason, &binding(wanted));
  record.pod = pod.ref;
  record.pod_uid = pod.uid;
  record.action = to_string(wanted.verdict->kind);
  record.text = text;
  write_news(key_of(binding(wanted)) + " refusal", {}, record);
}

bool VerdictLog::write_news(const std::string& about, const std::string& told,
                            const Record& record) {
  const std::pair key(about, record.pod_uid);
  std::pair news(record.reason, told);
  const auto known = memory_.told.find(key);
  if (known != memory_.told.end() && known->second == news) {
    return false;
  }
  if (!trail_.write(record)) {  // the next pass tries again
    return false;
  }
  memory_.told.insert_or_assign(key, std::move(news));
  return true;
}

void VerdictLog::mention_once(const Binding& binding, Reason reason, const std::string& text) {
  if (memory_.mentioned.emplace(key_of(binding), reason).second) {
    Record record = record_of(Record::Kind::IncidentHeld, reason, &binding);
    record.text = text;
    (void)trail_.write(record);
  }
}

Record VerdictLog::record_of(Record::Kind kind, Reason reason, const Binding* by) const {
  Record record;
  record.kind = kind;
  record.reason = reason;
  record.incident = context_.incident;
  record.node = authority_.node;
  record.node_uid = authority_.node_uid;
  record.policy = by == nullptr ? std::string() : by->name;
  record.policy_digest = by == nullptr ? std::string() : by->digest;
  record.attempt = context_.attempt;
  return record;
}

}  // namespace moonfence::fence
