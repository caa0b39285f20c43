#include "fence/rules/guard.h"

#include <utility>

#include "fence/rules/selection.h"
#include "fence/rules/triggers.h"
#include "policy/input/pod_facts.h"

namespace moonfence::fence {

using audit::Reason;
using policy::Binding;
using policy::EvidenceSet;

namespace {

// A dead kubelet is no dead machine: where its kernel answers, containers may run. Asked anew each
// time, because it may have come back since the reading. A health source goes by something else,
// and the address of a node without an object may be another machine's by now.
std::optional<Reason> refuse_by_kernel(const Authority& authority) {
  if (authority.kernels == nullptr || !authority.source.empty() ||
      has_no_object(authority.reading)) {
    return std::nullopt;
  }
  switch (authority.kernels->kernel_of(authority.node)) {
    case cluster::Kernel::Answers:
      return Reason::KernelAnswers;
    case cluster::Kernel::Unsure:
      return Reason::KernelUnsure;
    case cluster::Kernel::Silent:
    case cluster::Kernel::NotObservable:
      break;
  }
  return std::nullopt;
}

// By detection nothing is heard of the machine. It may have been heard since the reading, and then
// nothing else speaks against it.
std::optional<Reason> refuse_by_silence(const Authority& authority) {
  if (authority.kernels == nullptr || !is_by_detection(authority.source)) {
    return std::nullopt;
  }
  switch (authority.kernels->kernel_of(authority.node)) {
    case cluster::Kernel::Silent:
      return std::nullopt;
    case cluster::Kernel::Answers:
      return Reason::KernelAnswers;
    case cluster::Kernel::Unsure:
    case cluster::Kernel::NotObservable:
      break;
  }
  return Reason::KernelUnsure;
}

// Why a node that is down like this is not down for such a policy. Unknown is somebody else's word,
// which the Lease must bear out.
std::optional<Reason> unfit(const Authority& authority, const policy::Trigger& trigger) {
  const Reading& reading = authority.reading;
  if (reading.kubelet_lease == KubeletLease::Dead) {
    return trigger.live_kernel ? std::nullopt : refuse_by_kernel(authority);
  }
  if (reading.readiness == cluster::Readiness::Unknown) {
    return reading.kubelet_lease == KubeletLease::Alive ? Reason::LeaseAlive
                                                        : Reason::LeaseUnreadable;
  }
  return trigger.live_kubelet ? std::nullopt : std::optional(Reason::SignalUnfit);
}

// A controller takes seconds to accept a connection, and keeps none. So much older may be what was
// fresh when it was called. Lease, machine and power are asked anew as the bytes leave.
constexpr Duration kConnecting = std::chrono::seconds(5);

// Whether the node must carry its taint already, or gets one now: ours, or the one that evicts; or
// its machine is switched off, for which neither taint nor proof is needed.
enum class Taint { Demanded, ToCome, Evicting, NotNeeded };

// What speaks against putting the node out of service by this binding.
std::optional<Reason> refuse_eviction_by(const Binding& binding, const Authority& authority) {
  const Reading& reading = authority.reading;
  if (!binding.allow.out_of_service) {
    return Reason::TaintNotAllowed;
  }
  if (reading.kubelet_lease != KubeletLease::Dead) {
    return reading.kubelet_lease == KubeletLease::Alive ? Reason::LeaseAlive
                                                        : Reason::LeaseUnreadable;
  }
  // The patch would have nothing of the kubelet's to test.
  return reading.readiness == cluster::Readiness::Missing ? std::optional(Reason::ReadyMissing)
                                                          : refuse_by_kernel(authority);
}

// What speaks against it when it rests on this binding.
std::optional<Reason> refuse_by(const Binding& binding, const Authority& authority,
                                const kube::Pod& pod, Taint taint, Moment judged, Moment now) {
  const Duration grace = taint == Taint::NotNeeded ? kConnecting : Duration::zero();
  const Reading& reading = authority.reading;
  const auto alone = left_alone(pod, binding.allow);
  if (alone && !(taint == Taint::Evicting && alone == Reason::DaemonSetPod)) {
    return alone;
  }
  if (reading.uid != authority.node_uid) {
    return Reason::NodeReplaced;
  }
  if (!concerns(reading, pod)) {
    return Reason::NodeReplaced;
  }
  const bool deleted = is_of_deleted_node(reading);
  if (!deleted && !cluster::is_down(reading.readiness)) {
    return Reason::NodeNotDown;
  }
  if (has_no_object(reading) && taint != Taint::Demanded) {
    return Reason::NodeGone;
  }
  if (deleted && !binding.policy->trigger().deleted) {
    return Reason::SignalUnfit;
  }
  if (signal_of(binding) != authority.source) {
    return Reason::SignalUnfit;
  }
  // Its policy has a source of its own, by which no fencer is asked.
  if (binding.allow.act_on == policy::ActOn::Off && !is_by_fencers(authority.source)) {
    return Reason::ProofMissing;
  }
  if (const auto reason = refuse_by_silence(authority)) {
    return reason;
  }
  if (const auto reason = unfit(authority, binding.policy->trigger())) {
    return reason;
  }
  if (taint == Taint::Evicting) {
    if (const auto reason = refuse_eviction_by(binding, authority)) {
      return reason;
    }
  }
  if (taint == Taint::Demanded &&
      (!reading.keeps_replacements_off || needs_quarantine(authority))) {
    return Reason::NotTainted;
  }
  // `off` leaves bindings out of the set, so whatever is no enforcement observes.
  if (binding.mode != policy::Mode::Enforce) {
    return Reason::ModeObserves;
  }
  // That there was no node of the name says nothing of pods that were bound to it afterwards.
  if (now - reading.sent > limits_of(authority.leadership).reading + grace ||
      (deleted && reading.sent < judged)) {
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

// What is known without asking comes first: it is told also where nothing would be done.
std::optional<Reason> refuse_on_hold(const Authority& authority, const kube::Pod& pod) {
  const auto word = authority.namespaces.find(pod.ref.space);
  const bool held = authority.reading.hold || authority.held_pods.contains(pod.uid) ||
                    (word != authority.namespaces.end() && word->second.hold);
  return held ? std::optional(Reason::OnHold) : std::nullopt;
}

std::optional<Reason> refuse_unheard_namespace(const Authority& authority, const kube::Pod& pod,
                                               Moment now) {
  const auto word = authority.namespaces.find(pod.ref.space);
  if (word == authority.namespaces.end() || !word->second.known) {
    return Reason::HoldUnknown;
  }
  return now - word->second.sent > kHoldLifetime ? std::optional(Reason::ReadingTooOld)
                                                 : std::nullopt;
}

// Nobody who would know is as good as a doubt; nobody who counts: it may be too many.
std::optional<Reason> refuse_by_doubt_or_brake(const Authority& authority, Moment now) {
  if (authority.doubt == nullptr || authority.doubt->cause(now)) {
    return Reason::DoubtsItself;
  }
  return authority.brake == nullptr
             ? Reason::TooManyDown
             : authority.brake->refuse({.node = authority.node, .zone = authority.zone}, now);
}

// The process may die at any instant: whoever comes after us must know of it.
std::optional<Reason> refuse_unrecorded(const Authority& authority, const Uid& uid) {
  return authority.ledger != nullptr && authority.ledger->holds(uid)
             ? std::nullopt
             : std::optional(Reason::NotRecorded);
}

std::optional<Reason> refuse_on_leadership(const Leadership* leadership, Moment now) {
  const auto until = leadership != nullptr ? leadership->acts_until() : std::nullopt;
  return !until || now > *until - leadership->limits().action_span()
             ? std::optional(Reason::NotLeader)
             : std::nullopt;
}

std::optional<Reason> refuse(const Authority& authority, const Ground& ground, const kube::Pod& pod,
                             Taint taint, Moment now) {
  if (!authority.incident_open) {
    return Reason::IncidentClosed;
  }
  if (const auto reason = refuse_on_leadership(authority.leadership, now)) {
    return reason;
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
  if (const auto reason = refuse_on_hold(authority, pod)) {
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
    const auto reason = refuse_by(binding, authority, pod, taint, ground.judged, now);
    if (!reason) {
      if (taint != Taint::NotNeeded && !missing_proof(authority, ground, pod).empty()) {
        return Reason::ProofMissing;
      }
      const auto braked = refuse_by_doubt_or_brake(authority, now);
      const Duration grace = taint == Taint::NotNeeded ? kConnecting : Duration::zero();
      return braked ? braked : refuse_unheard_namespace(authority, pod, now - grace);
    }
    if (!furthest || *furthest < binding.mode) {
      furthest = binding.mode;
      refusal = *reason;
    }
  }
  return refusal;
}

}  // namespace

namespace {

// A kubelet that speaks has a machine with power, and so has one that was heard after its fencer
// was asked. By a health source's word nobody reads the Lease.
std::optional<PowerReading> power_of(const Authority& authority) {
  const bool is_silent = authority.reading.kubelet_lease == KubeletLease::Dead &&
                         (authority.source.empty() || is_by_fencers(authority.source));
  if (authority.powers == nullptr || !is_silent) {
    return std::nullopt;
  }
  const auto reading = authority.powers->reading_of(authority.node, authority.node_uid);
  const auto heard =
      authority.kernels == nullptr ? std::nullopt : authority.kernels->heard_at(authority.node);
  return reading && heard && *heard > reading->asked ? std::nullopt : reading;
}

}  // namespace

Sightings sightings_of(const Authority& authority, std::set<std::string> storage) {
  const Reading& reading = authority.reading;
  const cluster::Kernels* kernels = authority.kernels;
  const Powers* powers = authority.powers;
  const cluster::Kernel kernel =
      kernels == nullptr ? cluster::Kernel::NotObservable : kernels->kernel_of(authority.node);
  const bool by_fencers = is_by_fencers(authority.source);
  return {.exists = !has_no_object(reading),
          .unreachable = reading.readiness == cluster::Readiness::Unknown &&
                         reading.kubelet_lease == KubeletLease::Dead,
          .silent = kernels != nullptr && kernels->is_confirmed(authority.node),
          .may_live = by_fencers
                          ? kernel != cluster::Kernel::Silent
                          : kernel == cluster::Kernel::Answers || kernel == cluster::Kernel::Unsure,
          .attestation = reading.attestation,
          .power = power_of(authority),
          .fencers = powers == nullptr ? std::string() : powers->told_of(authority.node),
          .storage = std::move(storage)};
}

namespace {

struct Unmet {
  std::string_view by;
  EvidenceSet demanded;
};

std::optional<Unmet> unmet_of(const Authority& authority, const Ground& ground,
                              const kube::Pod& pod, EvidenceSet there) {
  if (const auto own = ground.proof == nullptr ? std::nullopt : unmet(*ground.proof, there)) {
    return Unmet{.by = "its policy", .demanded = *own};
  }
  if (is_by_fencers(authority.source) && !there.contains(policy::Evidence::Off)) {
    EvidenceSet off;
    off.insert(policy::Evidence::Off);
    return Unmet{.by = "its binding, by actOn: off,", .demanded = off};
  }
  if (authority.protections == nullptr) {
    return std::nullopt;  // the guard permits nothing without them
  }
  const KnownDrivers drivers = ground.drivers == nullptr ? std::nullopt : *ground.drivers;
  const auto demanded = unmet(authority.protections->proof.of(pod.ref.space, drivers), there);
  return demanded ? std::optional(Unmet{.by = "the engine's configuration", .demanded = *demanded})
                  : std::nullopt;
}

}  // namespace

std::string missing_proof(const Authority& authority, const Ground& ground, const kube::Pod& pod) {
  const Sightings sightings = sightings_of(authority, ground.storage);
  const auto missing = unmet_of(authority, ground, pod, evidence_there(sightings));
  return missing ? missing_text(authority.node, missing->by, missing->demanded, sightings)
                 : std::string();
}

bool lacks_only(const policy::PowerState& aim, const Authority& authority, const Ground& ground,
                const kube::Pod& pod) {
  const Sightings sightings = sightings_of(authority, ground.storage);
  EvidenceSet there = evidence_there(sightings);
  if (!sightings.exists || !unmet_of(authority, ground, pod, there)) {
    return false;
  }
  there.insert(evidence_by(aim, ground.storage));
  return !unmet_of(authority, ground, pod, there);
}

std::string missing_proof_of_any(const Authority& authority, const Eviction& eviction) {
  std::string text;
  for (const kube::Pod& pod : eviction.pods) {
    text = text.empty() ? missing_proof(authority, {.proof = &eviction.proof}, pod) : text;
  }
  return text;
}

bool needs_quarantine(const Authority& authority) {
  const Reading& reading = authority.reading;
  if (has_no_object(reading)) {
    return false;  // there is nothing to taint, and nothing is bound to it
  }
  switch (authority.quarantine) {
    case Quarantine::Off:
      return false;
    case Quarantine::Missing:
      return !reading.keeps_replacements_off || reading.own_taint == Carried::OutOfDate;
    case Quarantine::Always:
      return reading.own_taint != Carried::Ours && reading.own_taint != Carried::Foreign;
  }
  return true;
}

std::optional<Reason> refuse_pod_deletion(const Authority& authority, const Ground& ground,
                                          const kube::Pod& pod, Moment now) {
  const auto reason = refuse(authority, ground, pod, Taint::Demanded, now);
  return reason ? reason : refuse_unrecorded(authority, pod.uid);
}

std::optional<Reason> refuse_quarantine(const Authority& authority, const Ground& ground,
                                        const kube::Pod& pod, Moment now) {
  return authority.quarantine == Quarantine::Off
             ? std::optional(Reason::NotTainted)
             : refuse(authority, ground, pod, Taint::ToCome, now);
}

std::optional<Reason> refuse_out_of_service(const Authority& authority, const Ground& ground,
                                            const Eviction& eviction, Moment now,
                                            const kube::Pod** about) {
  // A health source may call a node failed whose kubelet is well.
  if (!authority.source.empty()) {
    return Reason::SignalUnfit;
  }
  const Duration lifetime = picture_lifetime(limits_of(authority.leadership), eviction.took);
  if (!eviction.complete || eviction.pods.empty() || now - eviction.listed > lifetime) {
    return Reason::PodsUnknown;
  }
  Ground of_all = ground;
  of_all.proof = &eviction.proof;
  for (const kube::Pod& pod : eviction.pods) {
    if (const auto reason = refuse(authority, of_all, pod, Taint::Evicting, now)) {
      if (about != nullptr) {
        *about = &pod;
      }
      return reason;
    }
  }
  if (!eviction.kubernetes || *eviction.kubernetes < kServesOutOfService) {
    return eviction.kubernetes ? Reason::TaintNotServed : Reason::VersionUnknown;
  }
  return eviction.objection ? eviction.objection : refuse_unrecorded(authority, authority.node_uid);
}

namespace {

// What has power is switched off, and what its storage serves, in part perhaps, is isolated.
bool calls_for(const PowerOrder& order, const policy::PowerState& said) {
  using policy::Power;
  return order.aim.power == Power::Off
             ? said.power == Power::On
             : order.aim.power == Power::Isolated &&
                   (said.power == Power::Served || said.power == Power::Isolated);
}

}  // namespace

std::optional<Reason> refuse_order(const Authority& authority, const Ground& ground,
                                   const kube::Pod& pod, const OrderCase& target, Moment now) {
  // A health source may call a node failed whose kubelet is well, and lost is no proof.
  if (!authority.source.empty() && !is_by_fencers(authority.source)) {
    return Reason::SignalUnfit;
  }
  if (const auto reason = refuse(authority, ground, pod, Taint::NotNeeded, now)) {
    return reason;
  }
  // A machine that lives and is not heard for some seconds is left on: that happens.
  if (is_by_fencers(authority.source) && !authority.reading.lost) {
    return Reason::KernelUnsure;
  }
  const Duration lifetime = picture_lifetime(limits_of(authority.leadership), target.took);
  if (target.pods == nullptr || !target.complete || now - target.listed > lifetime + kConnecting) {
    return Reason::PodsUnknown;
  }
  if (target.objection) {
    return target.objection;
  }
  if (!hold_on_any(authority, target).empty()) {
    return Reason::OnHold;
  }
  for (const kube::Pod& other : *target.pods) {
    if (const auto reason = refuse_unheard_namespace(authority, other, now - kConnecting)) {
      return reason;
    }
  }
  if (authority.reading.kubelet_lease != KubeletLease::Dead) {
    return authority.reading.kubelet_lease == KubeletLease::Alive ? Reason::LeaseAlive
                                                                  : Reason::LeaseUnreadable;
  }
  if (const auto reason = refuse_by_kernel(authority)) {
    return reason;
  }
  const auto reading = authority.powers == nullptr
                           ? std::nullopt
                           : authority.powers->reading_of(authority.node, authority.node_uid);
  const bool stands = reading && reading->fencer == target.fencer &&
                      reading->order == target.order && calls_for(target.order, reading->state);
  return stands && lacks_only(target.order.aim, authority, ground, pod)
             ? std::nullopt
             : std::optional(Reason::PowerNotOn);
}

std::string hold_on_any(const Authority& authority, const OrderCase& target) {
  std::string text;
  for (const kube::Pod& pod : *target.pods) {
    text = text.empty() ? hold_text(authority.node, authority.reading.hold, pod,
                                    authority.namespaces, authority.held_pods)
                        : text;
  }
  return text;
}

std::optional<Reason> refuse_lift(const Lift& lift, Moment now) {
  if (!lift.wanted) {
    return Reason::NodeChanged;
  }
  if (const auto reason = refuse_on_leadership(lift.leadership, now)) {
    return reason;
  }
  if (lift.node_uid.empty()) {
    return Reason::NoUid;
  }
  if (lift.hold) {
    return Reason::OnHold;
  }
  return now - lift.read > limits_of(lift.leadership).reading ? std::optional(Reason::ReadingTooOld)
                                                              : std::nullopt;
}

namespace {

bool enforces_anything(const policy::ActiveSet* active) {
  const auto set = active != nullptr ? active->current() : nullptr;
  return set != nullptr &&
         std::any_of(set->bindings.begin(), set->bindings.end(), [](const Binding& binding) {
           return binding.policy != nullptr && binding.mode == policy::Mode::Enforce;
         });
}

}  // namespace

std::optional<Reason> refuse_silent_taint(const Authority& authority, const Silence& silence,
                                          Moment now) {
  if (!silence.wanted) {
    return Reason::NodeChanged;
  }
  if (const auto reason = refuse_on_leadership(authority.leadership, now)) {
    return reason;
  }
  if (authority.node_uid.empty()) {
    return Reason::NoUid;
  }
  if (authority.protections == nullptr || authority.protections->own_node == authority.node) {
    return Reason::OwnNode;
  }
  if (authority.reading.hold) {
    return Reason::OnHold;
  }
  if (now - authority.reading.sent > limits_of(authority.leadership).reading) {
    return Reason::ReadingTooOld;
  }
  if (!enforces_anything(authority.active)) {
    return Reason::ModeObserves;
  }
  if (authority.kernels == nullptr) {
    return Reason::KernelUnsure;
  }
  const cluster::Kernel kernel = authority.kernels->kernel_of(authority.node);
  if (!authority.kernels->is_confirmed(authority.node)) {
    return kernel == cluster::Kernel::Answers ? Reason::KernelAnswers : Reason::KernelUnsure;
  }
  return refuse_by_doubt_or_brake(authority, now);
}

namespace {

// Two PersistentVolumes may name one disk, whose attachment bears the name of either. Its own name
// is made of driver, handle and node.
bool is_of_volume(const kube::Attachment& attachment, const AttachmentCase& target) {
  return !target.driver.empty() && attachment.attacher == target.driver && !target.volume.empty() &&
         (attachment.volume == target.volume ||
          (!target.handle.empty() &&
           attachment.name ==
               policy::attachment_name(target.handle, target.driver, attachment.node.text())));
}

std::optional<Reason> refuse_on_attachment(const Authority& authority, const Ground& ground,
                                           const kube::Pod& pod, const AttachmentCase& target,
                                           Moment now) {
  const kube::Attachment& attachment = target.attachment;
  if (attachment.uid.empty()) {
    return Reason::NoUid;
  }
  // Kubernetes may have taken it over for a pod of the new machine: it goes by the node's name.
  if (authority.reading.successor) {
    return Reason::NodeReplaced;
  }
  if (attachment.node != authority.node || !is_of_volume(attachment, target)) {
    return Reason::AttachmentMismatch;
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
  const Ground of_it = on_volume(ground, target);
  if (const auto reason = refuse(authority, of_it, pod, Taint::Demanded, now)) {
    return reason;
  }
  // What has no power, or is refused by the driver's storage, writes to none of its volumes,
  // whatever a detach does. Asked after the proof: one that is missing for a moment may be there
  // again in the next.
  const bool is_stopped = is_stopped_by(evidence_there(sightings_of(authority, of_it.storage)));
  return is_stopped || (authority.fencing_drivers != nullptr &&
                        authority.fencing_drivers->contains(target.driver))
             ? std::nullopt
             : std::optional(Reason::DriverNotDeclared);
}

// Between two leaders the node may have been up without anybody's seeing it, and its kubelet may
// have taken the volume up again: it must not have been heard of since.
std::optional<Reason> refuse_carried(const RecordLedger& ledger, const Uid& attachment,
                                     const kube::NodeStorage& storage) {
  const IncidentRecord::Step* step = ledger.record().find(attachment);
  if (step == nullptr || !step->release) {
    return Reason::NotRecorded;
  }
  if (step->release->boot_id != storage.boot_id) {
    return Reason::NodeRestarted;
  }
  return step->release->heartbeat != storage.ready_heartbeat
             ? std::optional(Reason::StorageWithdrawn)
             : std::nullopt;
}

}  // namespace

Ground on_volume(const Ground& ground, const AttachmentCase& target) {
  Ground of_it = ground;
  // A volume of an old kind, which Kubernetes translates to CSI, is of no driver that says so.
  of_it.storage = target.handle.empty() ? std::set<std::string>() : std::set{target.driver};
  return of_it;
}

std::optional<Reason> refuse_attachment_deletion(const Authority& authority, const Ground& ground,
                                                 const kube::Pod& pod, const AttachmentCase& target,
                                                 Moment now) {
  const auto reason = refuse_on_attachment(authority, ground, pod, target, now);
  return reason ? reason : refuse_unrecorded(authority, target.attachment.uid);
}

std::optional<Reason> refuse_release(const Authority& authority, const Ground& ground,
                                     const kube::Pod& pod, const ReleaseCase& target, Moment now) {
  if (authority.release == nullptr || !authority.release->on) {
    return Reason::ReleaseNotServed;
  }
  if (authority.reading.out_of_service != Carried::Nothing) {
    return Reason::OutOfService;
  }
  if (has_no_object(authority.reading)) {
    return Reason::NodeGone;
  }
  if (!is_releasable(target.name) || target.attachment.before_pod) {
    return Reason::VolumeUnfit;
  }
  if (!target.attachment_is_gone) {
    return Reason::AttachmentPresent;
  }
  if (const auto reason = refuse_on_attachment(authority, ground, pod, target.attachment, now)) {
    return reason;
  }
  // The deletion that it ends; the attachment may have been on its way when we came.
  if (refuse_unrecorded(authority, target.attachment.attachment.uid)) {
    if (const auto reason = refuse_unrecorded(authority, pod.uid)) {
      return reason;
    }
  }
  const Reading& reading = authority.reading;
  if (reading.kubelet_lease != KubeletLease::Dead) {
    return reading.kubelet_lease == KubeletLease::Alive ? Reason::LeaseAlive
                                                        : Reason::LeaseUnreadable;
  }
  if (const auto reason = refuse_by_kernel(authority)) {
    return reason;
  }
  const Limits limits = limits_of(authority.leadership);
  // The attachment and the Leases are read after the lists, and the node after these.
  if (reading.storage == nullptr || reading.storage != target.seen ||
      now - target.checked > limits.reading + 2 * slowness_of(limits)) {
    return Reason::ReadingTooOld;
  }
  const kube::NodeStorage& storage = *reading.storage;
  // A health source may call a node failed whose kubelet is well: that one restores its list. What
  // is off does not, whatever Kubernetes believes of it yet.
  if (!is_by_fencers(authority.source) &&
      (storage.ready_status == "True" || !authority.source.empty())) {
    return Reason::NodeNotDown;
  }
  if (!storage.attach_managed) {
    return Reason::VolumeUnfit;
  }
  if (storage.boot_id.empty() || storage.boot_id != authority.boot_id) {
    return Reason::NodeRestarted;
  }
  if (!storage.ready_index || storage.ready_heartbeat.empty()) {
    return Reason::ReadyMissing;
  }
  if (target.carried) {
    const Uid& attachment = target.attachment.attachment.uid;
    if (const auto reason = refuse_carried(*authority.ledger, attachment, storage)) {
      return reason;
    }
  }
  if (!target.attacher_is_alive) {
    return Reason::AttacherSilent;
  }
  return target.controller_is_alive ? std::nullopt : std::optional(Reason::ControllerSilent);
}

}  // namespace moonfence::fence
