#include "fence/act/steps.h"

#include <algorithm>
#include <utility>

#include "cluster/nodes/node_cache.h"
#include "policy/input/pod_facts.h"

namespace moonfence::fence {

using Step = IncidentRecord::Step;

Step step_of(const DeletePod& deletion) {
  Step step;
  step.kind = Step::Kind::DeletePod;
  step.pod = deletion.pod.ref;
  step.pod_uid = deletion.pod.uid;
  const kube::OwnerReference* controller = deletion.pod.controller();
  step.controller = controller == nullptr ? std::string() : controller->kind;
  step.phase = deletion.pod.phase;
  if (controller != nullptr) {
    step.owner_api = controller->api_version;
    step.owner = controller->name;
    step.owner_uid = controller->uid;
  }
  step.policy = deletion.policy;
  step.policy_digest = deletion.policy_digest;
  step.set_digest = deletion.set_digest;
  step.why = deletion.why;
  step.proof = policy::to_text(deletion.proof);
  step.evidence = deletion.evidence;
  return step;
}

namespace {

// What was said of another boot than the one that the incident began with is said of another
// machine.
std::optional<Step::Release> release_of(const Authority& authority) {
  const auto& storage = authority.reading.storage;
  if (storage == nullptr || storage->boot_id != authority.boot_id) {
    return std::nullopt;
  }
  return Step::Release{.boot_id = storage->boot_id, .heartbeat = storage->ready_heartbeat};
}

}  // namespace

Step step_of(const DeleteAttachment& deletion, const Detachment& detachment,
             const Authority& authority) {
  const policy::VolumeFacts& volume = detachment.volume;
  Step step = step_of(deletion.verdict);
  step.kind = Step::Kind::DeleteAttachment;
  step.attachment = deletion.target.attachment.name;
  step.attachment_uid = deletion.target.attachment.uid;
  step.driver = volume.driver;
  step.handle = volume.handle;
  step.volume = volume.pv;
  step.before_pod = deletion.target.before_pod;
  if (detachment.releases && deletion.target.attachment.held_by_attacher) {
    step.release = release_of(authority);
  }
  return step;
}

Step step_of(const TaintWish& wish, const Uid& node) {
  Step step;
  step.kind = Step::Kind::TaintNode;
  step.node_uid = node;
  step.policy = wish.policy;
  step.policy_digest = wish.policy_digest;
  step.set_digest = wish.set_digest;
  step.why = wish.why;
  step.proof = policy::to_text(wish.proof);
  step.evidence = wish.evidence;
  return step;
}

}  // namespace moonfence::fence
