#pragma once

// Every "why" of the engine, one closed list: records, metrics, events and tests all use these
// words, so what an operator reads is what the code decided by. Adding one means adding its text
// and its line in docs/reasons.md (tests/unit/audit checks both).

#include <optional>
#include <span>
#include <string_view>

namespace moonfence::audit {

enum class Reason {
  // Why an incident was opened.
  NodeNotReady,     // Ready turned False
  NodeUnknown,      // Ready turned Unknown: the kubelet is silent
  ReadyMissing,     // the node lost its Ready condition
  StartupSweep,     // the node was already down when we started
  TookOver,         // the node is down and we became the replica that acts
  EntryExpired,     // the node is still down and its cache entry ran out
  PoliciesChanged,  // the node is still down and other policies are in force
  SourceFailed,     // a health source calls the node failed
  NodeDeleted,      // the Node object was deleted, and a policy takes that for down

  // Why an incident does not go on yet.
  HoldingDown,        // the policy wants the node to be down for longer
  AwaitingTaint,      // without a NoSchedule taint a replacement may be bound to the dead node
  Unreadable,         // the node or its pods could not be read; nothing is decided on less
  ServerSlow,         // the API server takes longer than any reading or call may; as Unreadable
  AwaitingDetach,     // volume attachments are marked for deletion; the storage has not let go yet
  AttacherSilent,     // nobody would detach its volumes: its pod is not deleted; also a refusal
  DetachError,        // the storage has refused to let go of a volume: its pod is not deleted
  AttacherUnwatched,  // no Lease of its volumes' attacher is configured
  DetachOverdue,      // the policy's own time for its attachments is over and they are still there
  ForcedDetachNear,   // the storage has not let go, and Kubernetes will soon act as if it had
  VolumeLeft,         // a volume is attached to it, and no pod is left that a policy could judge
  ReleaseUnacknowledged,  // a volume was released and Kubernetes has not taken it off the node
  StillFailing,           // what is to be done has failed for a minute; it is tried again, for ever
  LeaseAlive,  // Ready is Unknown, but the kubelet renews its Lease; also a refusal of the guard
  LeaseUnreadable,  // Ready is Unknown, and the Lease could not be read; also a refusal
  StillWaiting,     // policies have made pods wait for two minutes; they are asked again
  // The same, by the brake; also why the guard refuses an action.
  TooManyDown,      // more of the workers are down than a few dead machines explain
  TooManyAtOnce,    // others are being fenced; it waits for its turn
  TooManyInWindow,  // enough nodes were fenced within the last minutes
  ZoneDisrupted,    // most of its zone is down: one node at a time
  DoubtsItself,     // something may be wrong with the engine itself or its line to the API server

  // Why an incident was closed.
  NodeReady,      // it came back
  SourceHealthy,  // its health source calls it healthy, or has long not named it
  NodeGone,       // the Node object was deleted; also why the guard refuses what needs one
  NodeReplaced,   // another node has its name
  Settled,        // nothing is left to do
  Unreplaced,     // nothing is left to do, and replacements were not Ready in time
  Stopping,       // the engine is being shut down
  SignalUnfit,    // down, but not in a way that any policy acts on
  NoPolicy,       // no policy that is in force concerns this node any more
  SteppedDown,    // another replica acts from now on
  StoreWentBack,  // the API server's store was restored from a backup; what is there is begun anew

  // Why the engine left a pod alone before asking any policy.
  MirrorPod,           // a static pod's shadow: deleting it does nothing
  DaemonSetPod,        // would be made again on the same node
  FinishedPod,         // Succeeded or Failed: nothing runs and nothing is attached
  BarePod,             // no owner: nothing would replace it
  OwnerNotController,  // an owner, and none that manages it: nobody knows whether it is replaced
  HandledBefore,       // this incident deleted it already; a finalizer keeps the object

  // What a policy said, or that it could not say anything.
  PolicySkips,
  PolicyForbids,
  PolicyHolds,  // nobody may act for now; it is asked again
  PolicyWaits,
  PolicyDeletesPod,
  PolicyDeletesPodAndAttachments,
  PolicyDeletesAttachments,
  PolicyReleases,    // its attachment is gone: the node's status may say so
  PolicyHoldsNode,   // none of its pods may be touched for now
  SetsQuarantine,    // our taint, before the deletion that it wants
  SetsOutOfService,  // Kubernetes' taint, which evicts every pod of the node
  NeedsUnread,       // what the policy needs to know could not be read; nobody acts on the pod
  PolicyFailed,      // an error or a limit in the script; nobody acts on the pod
  PolicyFailing,     // it failed too often in this pass; it is asked again in the next
  PolicyConflict,    // another policy is more careful, or wants another action and comes first
  ShadowDiffers,     // what observes came to something else than what enforces

  // Why our taint is taken off a node.
  LiftsQuarantine,  // it was proven clean, or somebody else took the taint off

  // Why the guard refused an action.
  ModeObserves,        // decisions are recorded, nothing is done
  IncidentClosed,      // the incident ended while the action waited
  NotLeader,           // another replica may act before this action would have ended
  ReadingTooOld,       // the node was last read live more than a second ago
  NodeNotDown,         // the live reading says that the node is not down
  NotTainted,          // the live reading shows no NoSchedule taint
  WrongNode,           // the pod is not bound to this incident's node
  OutsideBinding,      // the pod's namespace is not the binding's
  ProtectedNamespace,  // the engine's own configuration protects the namespace
  OwnNode,             // we run on this node: whatever its state is, it is not dead
  PolicyChanged,       // the set of policies that judged is not in force any more
  GuardFailed,         // a policy that may speak against it could not say
  GuardBroken,         // a policy that may forbid it could not be loaded
  ReleaseNotServed,    // the engine's own configuration permits no releases
  VolumeUnfit,         // a volume of a kind, or on a node, where a release does nothing or harm
  AttachmentPresent,   // the volume is, or may be, still attached: nothing may be released
  NodeRestarted,       // the node booted since the incident began, or may have
  ControllerSilent,    // kube-controller-manager would not act on it, or later on old facts
  StorageWithdrawn,    // the node came back after its storage was told to let go
  DriverNotDeclared,   // the attachment's CSI driver is not declared to fence
  AttachmentMismatch,  // it is of another node, driver or volume than the one judged
  NotHeldByAttacher,   // without the attacher's finalizer "gone" says nothing about the storage
  VolumeInUse,         // another pod of the node uses the volume, or that could not be ruled out
  PodNotTerminating,   // its attachments may go before it only when it is being deleted
  OutOfService,        // Kubernetes itself detaches from a node that is out of service
  TaintNotServed,      // the server does not know the out-of-service taint
  VersionUnknown,      // nor could it be asked whether it does
  TaintNotAllowed,     // the binding does not allow the out-of-service taint
  PodsUnknown,         // some pod of the node could not be read, or that was too long ago
  OnHold,              // somebody holds its node, its namespace or the pod itself, by an annotation
  HoldUnknown,         // whether somebody does could not be read
  NoUid,  // without a UID the precondition would be empty; the server found none: also an outcome
  AuditUnwritable,  // the intent could not be recorded, so it is not done
  NotRecorded,      // it does not stand in the incident's record in the cluster

  // What became of a deleted pod.
  ReplacementReady,        // another one took its place and is Ready
  ReplacementNotNeeded,    // its controller wants no more pods, or is gone
  ReplacementAbsent,       // its controller has made none yet
  PodLingers,              // it is being deleted and its object keeps its name
  ReplacementUnscheduled,  // no node has room for it, or may have it
  ReplacementMisplaced,    // it is bound to the node that failed
  ReplacementUnattached,   // its volumes are not attached and mounted where it is
  ReplacementStarting,     // its containers are not Ready

  NotProvenClean,  // our taint stays: nothing proves that the node has let go of what it had

  // How an action ended.
  Done,         // the server did it
  MarkedOnly,   // the server marked the object; a finalizer keeps it
  AlreadyGone,  // a live read found it gone: somebody else was faster
  Replaced,     // a live read found another object of that name, which was left alone
  NodeChanged,  // a test of the patch failed, or the node changed while it waited: read it again
  Refused,      // 403 or another final refusal of the server
  Deposed,      // the server refuses: by the Lease another replica leads
  Retryable,    // it did not happen and may succeed later
  ReleaseOvertaken,     // the node's status changed since it was read: nothing was released
  Detached,             // the attachment that was marked is gone: the storage has let go
  ReleaseAcknowledged,  // Kubernetes took the released volume off the node
  OutcomeLost,          // the request left and no reply came; repeating is safe by the precondition
};

// snake_case, stable: part of the audit format and of metric labels.
[[nodiscard]] std::string_view code(Reason reason);

// The reason of that code; nullopt: there is none.
[[nodiscard]] std::optional<Reason> find_reason(std::string_view code);

// Every reason in the order of the enum.
[[nodiscard]] std::span<const Reason> all_reasons();

}  // namespace moonfence::audit
