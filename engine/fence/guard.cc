#include "fence/guard.h"

#include "fence/selection.h"

namespace moonfence::fence {

using audit::Reason;
using policy::Binding;

namespace {

// Why a node that is down like this is not down for such a policy. Unknown is somebody else's word,
// which the Lease must bear out.
std::optional<Reason> unfit(const Reading& reading, bool live_kubelet) {
  if (reading.pulse == Pulse::Dead) {
    return std::nullopt;
  }
  if (reading.readiness == cluster::Readiness::Unknown) {
    return reading.pulse == Pulse::Alive ? Reason::LeaseAlive : Reason::LeaseUnreadable;
  }
  return live_kubelet ? std::nullopt : std::optional(Reason::SignalUnfit);
}

// What speaks against it when it rests on this binding.
std::optional<Reason> refuse_by(const Binding& binding, const Authority& authority,
                                const kube::Pod& pod, Moment now) {
  const Reading& reading = authority.reading;
  if (const auto reason = left_alone(pod, binding.allow)) {
    return reason;
  }
  if (reading.uid != authority.node_uid) {
    return Reason::NodeReplaced;
  }
  if (!cluster::is_down(reading.readiness)) {
    return Reason::NodeNotDown;
  }
  if (const auto reason = unfit(reading, binding.policy->trigger().live_kubelet)) {
    return reason;
  }
  if (!reading.keeps_replacements_off) {
    return Reason::NotTainted;
  }
  // `off` leaves bindings out of the set, so whatever is no enforcement observes.
  if (binding.mode != policy::Mode::Enforce) {
    return Reason::ModeObserves;
  }
  if (now - reading.sent > kReadingLifetime) {
    return Reason::ReadingTooOld;
  }
  return std::nullopt;
}

std::optional<Reason> refuse_by_protections(const Protections* protections, const kube::Pod& pod) {
  if (protections == nullptr || protections->namespaces.contains(pod.ref.space)) {
    return Reason::ProtectedNamespace;
  }
  return pod.node == protections->own_node ? std::optional(Reason::OwnNode) : std::nullopt;
}

// Nobody who counts: it may be too many.
std::optional<Reason> refuse_by_brake(const Authority& authority, Moment now) {
  return authority.brake == nullptr
             ? Reason::TooManyDown
             : authority.brake->refuse({.node = authority.node, .zone = authority.zone}, now);
}

// The process may die at any instant: whoever comes after us must know of it.
std::optional<Reason> refuse_unrecorded(const Authority& authority, const Uid& uid) {
  return authority.page != nullptr && authority.page->holds(uid)
             ? std::nullopt
             : std::optional(Reason::NotRecorded);
}

std::optional<Reason> refuse_on_pod(const Authority& authority, const Ground& ground,
                                    const kube::Pod& pod, Moment now) {
  if (!authority.incident_open) {
    return Reason::IncidentClosed;
  }
  const auto until =
      authority.leadership != nullptr ? authority.leadership->acts_until() : std::nullopt;
  if (!until || now > *until - kActionSpan) {
    return Reason::NotLeader;
  }
  // What can never be right comes before what may be right a moment later.
  if (pod.uid.empty() || authority.node_uid.empty()) {
    return Reason::NoUid;
  }
  if (pod.node != authority.node) {
    return Reason::WrongNode;
  }
  if (const auto reason = refuse_by_protections(authority.protections, pod)) {
    return reason;
  }
  if (authority.active == nullptr) {
    return Reason::PolicyChanged;
  }
  const auto set = authority.active->current();
  if (set->digest != ground.set) {
    return Reason::PolicyChanged;
  }
  // The same policy may be bound several times with different allowances: one that permits it is
  // enough. Of several refusals that of the binding that goes furthest is told.
  Reason refusal = Reason::PolicyChanged;
  std::optional<policy::Mode> furthest;
  for (const Binding& binding : set->bindings) {
    if (binding.policy == nullptr || binding.name != ground.policy ||
        binding.digest != ground.digest) {
      continue;
    }
    if (!binding.scope.covers(pod.ref.space)) {
      refusal = furthest ? refusal : Reason::OutsideBinding;
      continue;
    }
    const auto reason = refuse_by(binding, authority, pod, now);
    if (!reason) {
      return refuse_by_brake(authority, now);
    }
    if (!furthest || *furthest < binding.mode) {
      furthest = binding.mode;
      refusal = *reason;
    }
  }
  return refusal;
}

}  // namespace

std::optional<Reason> refuse_pod_deletion(const Authority& authority, const Ground& ground,
                                          const kube::Pod& pod, Moment now) {
  const auto reason = refuse_on_pod(authority, ground, pod, now);
  return reason ? reason : refuse_unrecorded(authority, pod.uid);
}

std::optional<Reason> refuse_attachment_deletion(const Authority& authority, const Ground& ground,
                                                 const kube::Pod& pod, const AttachmentCase& target,
                                                 Moment now) {
  const kube::Attachment& attachment = target.attachment;
  if (attachment.uid.empty()) {
    return Reason::NoUid;
  }
  if (attachment.node != authority.node || attachment.attacher != target.driver ||
      target.driver.empty() || attachment.volume != target.volume || target.volume.empty()) {
    return Reason::AttachmentMismatch;
  }
  if (authority.fencing_drivers == nullptr || !authority.fencing_drivers->contains(target.driver)) {
    return Reason::DriverNotDeclared;
  }
  if (!attachment.held_by_attacher) {
    return Reason::NotHeldByAttacher;
  }
  if (target.used_by_others) {
    return Reason::VolumeInUse;
  }
  if (target.before_pod && !pod.deletion_timestamp) {
    return Reason::PodNotTerminating;
  }
  const auto reason = refuse_on_pod(authority, ground, pod, now);
  return reason ? reason : refuse_unrecorded(authority, attachment.uid);
}

}  // namespace moonfence::fence
