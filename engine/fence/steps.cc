#include "fence/steps.h"

#include <utility>

namespace moonfence::fence {

using Step = IncidentRecord::Step;

Step step_of(const PodDeletion& deletion) {
  Step step;
  step.kind = Step::Kind::DeletePod;
  step.pod = deletion.pod.ref;
  step.pod_uid = deletion.pod.uid;
  const kube::OwnerReference* controller = deletion.pod.controller();
  step.controller = controller == nullptr ? std::string() : controller->kind;
  step.phase = deletion.pod.phase;
  step.policy = deletion.policy;
  step.policy_digest = deletion.policy_digest;
  step.set_digest = deletion.set_digest;
  step.why = deletion.why;
  return step;
}

Step step_of(const AttachmentDeletion& deletion, const policy::VolumeFacts& volume) {
  Step step = step_of(deletion.verdict);
  step.kind = Step::Kind::DeleteAttachment;
  step.attachment = deletion.target.attachment.name;
  step.attachment_uid = deletion.target.attachment.uid;
  step.driver = volume.driver;
  step.handle = volume.handle;
  step.volume = volume.pv;
  step.before_pod = deletion.target.before_pod;
  return step;
}

namespace {

Detachment detachment_of(const Step& step, const IncidentRecord& record) {
  Detachment detachment;
  PodDeletion& verdict = detachment.verdict;
  verdict.pod.ref = step.pod;
  verdict.pod.uid = step.pod_uid;
  verdict.pod.node = record.node;
  verdict.pod.phase = step.phase;
  if (!step.controller.empty()) {
    verdict.pod.owners.push_back(
        {.api_version = {}, .kind = step.controller, .name = {}, .uid = {}, .controller = true});
  }
  verdict.incident = record.id;
  verdict.policy = step.policy;
  verdict.policy_digest = step.policy_digest;
  verdict.set_digest = step.set_digest;
  verdict.why = step.why;
  detachment.volume.pv = step.volume;
  detachment.volume.driver = step.driver;
  detachment.volume.handle = step.handle;
  detachment.volume.attachment = step.attachment;
  detachment.before_pod = step.before_pod;
  detachment.asked = step.attachment_uid;
  detachment.inherited = !step.sent;
  return detachment;
}

}  // namespace

void restore(Memory& memory, const IncidentRecord& record) {
  memory.inherited_boot = record.boot_id;
  for (const Step& step : record.steps) {
    if (step.kind == Step::Kind::DeletePod && step.settled()) {
      memory.handled.insert(step.pod_uid);
    } else if (step.kind == Step::Kind::DeleteAttachment && !step.settled()) {
      memory.detachments.insert_or_assign(step.attachment, detachment_of(step, record));
    }
  }
}

}  // namespace moonfence::fence
