#pragma once

// Every rule that a run is judged by, with the words that a violation and docs/simulation.md use.

#include <span>
#include <string_view>

namespace moonfence::sim {

struct Rule {
  std::string_view name;
  std::string_view text;
};

[[nodiscard]] std::span<const Rule> all_rules();

namespace rules {

// What may be deleted.
inline constexpr std::string_view kUidPrecondition = "uid-precondition";
inline constexpr std::string_view kNoCollections = "no-collections";
inline constexpr std::string_view kListedPod = "listed-pod";
inline constexpr std::string_view kIncidentNode = "incident-node";
inline constexpr std::string_view kProtectedPod = "protected-pod";
inline constexpr std::string_view kCoveredPod = "covered-pod";
inline constexpr std::string_view kExpectedWrite = "expected-write";
// When.
inline constexpr std::string_view kLiveRead = "live-read";
inline constexpr std::string_view kRecoveredNode = "recovered-node";
inline constexpr std::string_view kSilentKubelet = "silent-kubelet";
inline constexpr std::string_view kLivingLease = "living-lease";
inline constexpr std::string_view kLivingKernel = "living-kernel";
inline constexpr std::string_view kLostNode = "lost-node";
inline constexpr std::string_view kAttestedNode = "attested-node";
inline constexpr std::string_view kPoweredNode = "powered-node";
inline constexpr std::string_view kSwitchedOff = "switched-off";
inline constexpr std::string_view kIsolated = "isolated";
inline constexpr std::string_view kToldEvidence = "told-evidence";
inline constexpr std::string_view kTaintedNode = "tainted-node";
inline constexpr std::string_view kDeletedNode = "deleted-node";
// Who.
inline constexpr std::string_view kLeaseHolder = "lease-holder";
inline constexpr std::string_view kOneActor = "one-actor";
inline constexpr std::string_view kOwnTaint = "own-taint";
inline constexpr std::string_view kHandedBackClean = "handed-back-clean";
inline constexpr std::string_view kOutOfService = "out-of-service";
// How much at once.
inline constexpr std::string_view kBrakeDown = "brake-down";
inline constexpr std::string_view kBrakePace = "brake-pace";
// The audit.
inline constexpr std::string_view kRecordFirst = "record-first";
inline constexpr std::string_view kIntentFirst = "intent-first";
inline constexpr std::string_view kOutcomeRecorded = "outcome-recorded";
inline constexpr std::string_view kAuditComplete = "audit-complete";
inline constexpr std::string_view kAuditTrue = "audit-true";
inline constexpr std::string_view kOneIncident = "one-incident";
// The data.
inline constexpr std::string_view kSingleWriter = "single-writer";
inline constexpr std::string_view kOverlap = "overlap";
inline constexpr std::string_view kLastConsumer = "last-consumer";
inline constexpr std::string_view kReleasedLast = "released-last";
// Bounds.
inline constexpr std::string_view kBoundedLane = "bounded-lane";
inline constexpr std::string_view kBoundedRequests = "bounded-requests";
inline constexpr std::string_view kBoundedTurns = "bounded-turns";
inline constexpr std::string_view kBoundedTimers = "bounded-timers";
inline constexpr std::string_view kBoundedIncident = "bounded-incident";
// Liveness.
inline constexpr std::string_view kNodeDealtWith = "node-dealt-with";
inline constexpr std::string_view kSilentTaint = "silent-taint";
inline constexpr std::string_view kIncidentClosed = "incident-closed";

}  // namespace rules
}  // namespace moonfence::sim
