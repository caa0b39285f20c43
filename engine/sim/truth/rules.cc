#include "sim/truth/rules.h"

#include <array>

namespace moonfence::sim {
namespace rules {
namespace {

constexpr std::array kAll = {
    Rule{kUidPrecondition,
         "every DELETE of the engine carries a UID precondition, and what it "
         "removes has this UID"},
    Rule{kNoCollections, "the engine deletes single pods, never a collection"},
    Rule{kListedPod,
         "a pod is deleted only if an answer to this incarnation's lists showed its "
         "UID since the incident was opened"},
    Rule{kIncidentNode, "a deleted pod is bound to the incident's node"},
    Rule{kProtectedPod,
         "mirror and DaemonSet pods are never deleted, finished and bare ones only "
         "if a binding allows it"},
    Rule{kCoveredPod,
         "a deletion is covered by a binding that enforces, in force within the "
         "second before it left"},
    Rule{kExpectedWrite,
         "the engine writes nothing but deletions of pods and attachments, volumesInUse of nodes, "
         "its taint, what it tells others of a node, events, its Lease, its own ConfigMaps, and "
         "NetworkFences where a fencer may"},
    Rule{kLiveRead,
         "when a deletion leaves, a live reading said that this very node is down, or that "
         "there is none of its name; it left at most 1 s before, on a slow server twice as "
         "long as its slowest read took, and 5 s at most"},
    Rule{kRecoveredNode,
         "when a deletion leaves, the node has in truth been clear of its down signal for no "
         "longer than a reading may be old (`live-read`)"},
    Rule{kSilentKubelet,
         "a policy without live_kubelet deletes only while Ready is Unknown, or "
         "was within the last second, or when the Lease has stood still for its duration"},
    Rule{kLivingLease,
         "while Ready is Unknown nothing is deleted that rests on a Lease renewed "
         "since, less than its duration and more than a second ago"},
    Rule{kLivingKernel,
         "with `set detection on` a policy without live_kernel deletes nothing of a node whose "
         "Lease is dead while its machine's kernel answers, and has answered this replica for 10 "
         "s"},
    Rule{kLostNode,
         "a binding with `actOn: lost` deletes nothing of a node whose machine's kernel has "
         "answered this replica for 2 s"},
    Rule{kAttestedNode,
         "with `set proof attested`, and where nobody attests a machine that has power, nothing is "
         "deleted of a node that nobody has attested, or whose machine has had power for 20 s"},
    Rule{
        kPoweredNode,
        "with `set proof off`, and where no BMC and no storage is `lying`, nothing is deleted of a "
        "node whose machine has had power for more than 10 s, but a pod all of whose volumes are "
        "of a storage that refuses the machine in truth, or did 10 s ago, or an attachment of "
        "such a volume; with `set volume-proof off` this is so of pods and attachments with "
        "volumes of that storage"},
    Rule{kSwitchedOff,
         "a machine is ordered off only where a fencer may, by an intent for it, while its node is "
         "down and its kubelet's Lease is dead, or its machine is lost and its Lease stands still; "
         "by the replica that leads, which has not heard it for 10 s; and it is that node's"},
    Rule{kIsolated,
         "a NetworkFence is made only where a fencer may, by an intent for it, while its node is "
         "down and its kubelet's Lease is dead, by the replica that leads; and it refuses single "
         "addresses, which are that node's"},
    Rule{
        kToldEvidence,
        "where no BMC and no storage is `lying`, what stands on a node for others as `off` names "
        "no boot that its machine runs; and what is void there by the Node, its boot or its status "
        "(another UID, bootID or `lastHeartbeatTime`) is gone when nothing has kept moonfence "
        "from taking it off for as long as something did before, and 20 s; five minutes suffice. "
        "What is void by a Lease, by a machine that answers, by an attestation or an isolation "
        "that was lifted is not judged"},
    Rule{kTaintedNode,
         "when a deletion leaves, the node carries a NoSchedule taint that says down, or did "
         "when the reading was made (`live-read`), or does not exist"},
    Rule{kDeletedNode,
         "on a node that does not exist only pods and attachments are deleted, by a policy with "
         "`deleted`"},
    Rule{kLeaseHolder,
         "of several replicas, whoever has deleted something or changed a node holds the Lease "
         "in that moment, unless the call was under way for longer than it says (`timeout=`)"},
    Rule{kOneActor, "no two replicas have such calls under way at the same time"},
    Rule{kOwnTaint,
         "of a node the engine changes the taint and the annotation moonfence.io/fenced only, "
         "moonfence.io/silent and out-of-service with their annotations, and never a taint without "
         "its annotation; and what it tells others of the node"},
    Rule{kHandedBackClean,
         "its taint comes off only while the node is Ready, and either another boot than the one "
         "it "
         "was set against, or Ready for 29 s without a pod that is being deleted; out-of-service "
         "only when no attachment to the node is left that is being deleted"},
    Rule{
        kOutOfService,
        "out-of-service is set only from 1.26 on, on a node whose Lease is dead, by a binding that "
        "allows it and covers every pod that it evicts, none of them protected, and bare or "
        "finished only if it allows that"},
    Rule{kBrakeDown,
         "no deletion leaves while a replica has known for 1 s that more workers are down than "
         "the brake lets pass"},
    Rule{kBrakePace,
         "a replica's deletions concern no more nodes at once and within the window "
         "than the brake lets pass, and one at a time of a zone that is disrupted"},
    Rule{kRecordFirst,
         "when the server takes a deletion, a stored record of an incident names "
         "its UID"},
    Rule{kIntentFirst,
         "an intent is in the audit before its DELETE or the PATCH of its node leaves, one for "
         "each"},
    Rule{kOutcomeRecorded,
         "an intent is followed by its outcome or refusal, 3 s after the limit that its call "
         "names (`timeout=`) at the latest, while the replica runs"},
    Rule{kAuditComplete,
         "whatever the engine deleted, and every node that it changed, can be found in the "
         "audit as an intent before it"},
    Rule{kAuditTrue, "an outcome that says done, marked or gone is true"},
    Rule{kOneIncident,
         "a replica has at most one open incident a node and signal, and closes what it "
         "opened"},
    Rule{kSingleWriter,
         "no volume of a single writer has running containers on two machines, or "
         "on one that it is not published to, while the old machine is sound"},
    Rule{
        kOverlap,
        "with `set proof off`, and where no BMC and no storage is `lying`, no pod that the engine "
        "deleted runs on while another of its name runs on another machine, or one that writes its "
        "volume; one whose volumes are all of a storage that refuses its machine in truth writes "
        "nothing, and may"},
    Rule{kLastConsumer,
         "an attachment is deleted only when every other pod of the node that "
         "uses the volume is gone"},
    Rule{kReleasedLast,
         "the engine takes a volume out of a node's volumesInUse only when the node is down, its "
         "attachment is gone, the storage has let go, and no pod of the node uses it"},
    Rule{kBoundedLane,
         "at most 192 writes, 4 lists and 4 watches of a replica are under way, and "
         "at most 512 exchanges exist"},
    Rule{kBoundedRequests, "a replica sends at most 500 requests in a second"},
    Rule{kBoundedTurns, "a replica takes at most 20,000 turns in a second"},
    Rule{kBoundedTimers, "a replica has at most 1,000 timers"},
    Rule{kBoundedIncident,
         "an incident costs at most 120 readings of its node or Lease and 3 each second, 30 lists "
         "of a namespace's pods and one each second, and 4 tries of one object and one each 2 s"},
    Rule{kNodeDealtWith,
         "two minutes after the last obstacle ended, a node that is down holds no pod that the "
         "policies in force want gone, nor does one that was made anew hold such a pod that its "
         "machine does not run"},
    Rule{kSilentTaint,
         "two minutes after the last obstacle ended, no node that is Ready and whose machine "
         "answers carries the taint moonfence.io/silent"},
    Rule{kIncidentClosed,
         "once faults have ended for long enough, every incident is closed that does not tell of a "
         "volume that stays attached, or of a node that may not be put out of service; one of a "
         "node whose machine answers may stay open with `set detection on`"},
};

}  // namespace
}  // namespace rules

std::span<const Rule> all_rules() {
  return rules::kAll;
}

}  // namespace moonfence::sim
