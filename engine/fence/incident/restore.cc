#include "fence/incident/restore.h"

#include <algorithm>
#include <utility>

#include "cluster/nodes/node_cache.h"
#include "policy/input/pod_facts.h"

namespace moonfence::fence {

using Step = IncidentRecord::Step;

namespace {

// The record was read by a parser that refuses anything else.
policy::ProofDemands proof_of(const Step& step) {
  return policy::parse_demands(step.proof).value_or(policy::ProofDemands());
}

Detachment detachment_of(const Step& step, const IncidentRecord& record) {
  Detachment detachment;
  DeletePod& verdict = detachment.verdict;
  verdict.pod.ref = step.pod;
  verdict.pod.uid = step.pod_uid;
  verdict.pod.node = record.node;
  if (!step.controller.empty()) {
    verdict.pod.owners.push_back(
        {.api_version = {}, .kind = step.controller, .name = {}, .uid = {}, .controller = true});
  }
  verdict.incident = record.id;
  verdict.policy = step.policy;
  verdict.policy_digest = step.policy_digest;
  verdict.set_digest = step.set_digest;
  verdict.why = step.why;
  verdict.proof = proof_of(step);
  detachment.volume.pv = step.volume;
  detachment.volume.driver = step.driver;
  detachment.volume.handle = step.handle;
  detachment.volume.attachment = step.attachment;
  detachment.before_pod = step.before_pod;
  detachment.asked = step.attachment_uid;
  detachment.inherited = !step.sent;
  // Under another name than its volume's it would be compared with the users of another one.
  const bool is_named_for_it =
      policy::attachment_name(step.handle, step.driver, record.node.text()) == step.attachment;
  if (step.release && is_named_for_it) {
    detachment.releases = detachment.carried = true;
    detachment.held = kube::Attachment{.name = step.attachment,
                                       .uid = step.attachment_uid,
                                       .attacher = step.driver,
                                       .node = record.node,
                                       .volume = step.volume,
                                       .held_by_attacher = true,
                                       .detach_error = {}};
  }
  return detachment;
}

Replacements::Deleted deleted_by(const Step& step) {
  return {.pod = step.pod,
          .uid = step.pod_uid,
          .owner = {.api_version = step.owner_api,
                    .kind = step.controller,
                    .name = step.owner,
                    .uid = step.owner_uid,
                    .controller = true},
          .at = step.ended.value_or(*step.sent),
          .call = step.ended.value_or(*step.sent) - *step.sent,
          .answered = step.settled(),
          .told = step.follow ? std::optional(step.follow->state) : std::nullopt};
}

}  // namespace

void verify(Replacements& replacements, const IncidentRecord& record) {
  for (const Step& step : record.steps) {
    if (step.awaits_replacement()) {
      replacements.deleted(deleted_by(step));
    }
  }
}

std::optional<Duration> silent_ago(const IncidentRecord& record, WallTime now) {
  if (!record.silent || now - *record.silent > cluster::kDepartedFor) {
    return std::nullopt;
  }
  return std::max<Duration>(now - *record.silent, Duration::zero());
}

void restore(Memory& memory, const IncidentRecord& record, Moment now) {
  memory.inherited_boot = record.boot_id;
  verify(memory.replacements, record);
  for (const Step& step : record.steps) {
    // One that was found gone comes up in no list; where it does, that was not so.
    if (step.kind == Step::Kind::DeletePod &&
        (step.outcome == audit::Reason::Done || step.outcome == audit::Reason::MarkedOnly)) {
      memory.handled.insert(step.pod_uid);
    } else if (step.kind == Step::Kind::DeleteAttachment && !step.settled() &&
               step.outcome != audit::Reason::NodeRestarted) {
      memory.detachments.insert_or_assign(step.attachment, detachment_of(step, record));
    } else if (step.awaits_release()) {
      Detachment detachment = detachment_of(step, record);
      if (detachment.releases) {
        memory.releases.insert_or_assign(
            step.attachment, PendingRelease{.detachment = std::move(detachment), .gone_at = now});
      }
    } else if (step.kind == Step::Kind::TaintNode && step.settled()) {
      memory.retired_for = {.policy = step.policy,
                            .policy_digest = step.policy_digest,
                            .set_digest = step.set_digest,
                            .why = step.why,
                            .proof = proof_of(step)};
    }
  }
}

}  // namespace moonfence::fence
