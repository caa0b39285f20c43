#include "audit/reason.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace moonfence::audit {
namespace {

// "" for what is no reason.
// NOLINTNEXTLINE(readability-function-size): two lines a reason, and the compiler counts them
constexpr std::string_view word_of(Reason reason) {
  switch (reason) {
    case Reason::NodeNotReady:
      return "node_not_ready";
    case Reason::NodeUnknown:
      return "node_unknown";
    case Reason::ReadyMissing:
      return "ready_missing";
    case Reason::SourceFailed:
      return "source_failed";
    case Reason::NodeDeleted:
      return "node_deleted";
    case Reason::StartupSweep:
      return "startup_sweep";
    case Reason::TookOver:
      return "took_over";
    case Reason::EntryExpired:
      return "entry_expired";
    case Reason::PoliciesChanged:
      return "policies_changed";
    case Reason::HoldingDown:
      return "holding_down";
    case Reason::AwaitingTaint:
      return "awaiting_taint";
    case Reason::LeaseAlive:
      return "lease_alive";
    case Reason::LeaseUnreadable:
      return "lease_unreadable";
    case Reason::Unreadable:
      return "unreadable";
    case Reason::ServerSlow:
      return "server_slow";
    case Reason::AwaitingDetach:
      return "awaiting_detach";
    case Reason::AttacherSilent:
      return "attacher_silent";
    case Reason::DetachError:
      return "detach_error";
    case Reason::AttacherUnwatched:
      return "attacher_unwatched";
    case Reason::DetachOverdue:
      return "detach_overdue";
    case Reason::ForcedDetachNear:
      return "forced_detach_near";
    case Reason::VolumeLeft:
      return "volume_left";
    case Reason::ReleaseUnacknowledged:
      return "release_unacknowledged";
    case Reason::StillFailing:
      return "still_failing";
    case Reason::StillWaiting:
      return "still_waiting";
    case Reason::TooManyDown:
      return "too_many_down";
    case Reason::TooManyAtOnce:
      return "too_many_at_once";
    case Reason::TooManyInWindow:
      return "too_many_in_window";
    case Reason::ZoneDisrupted:
      return "zone_disrupted";
    case Reason::DoubtsItself:
      return "doubts_itself";
    case Reason::NodeReady:
      return "node_ready";
    case Reason::SourceHealthy:
      return "source_healthy";
    case Reason::NodeGone:
      return "node_gone";
    case Reason::NodeReplaced:
      return "node_replaced";
    case Reason::Settled:
      return "settled";
    case Reason::Unreplaced:
      return "unreplaced";
    case Reason::Stopping:
      return "stopping";
    case Reason::SignalUnfit:
      return "signal_unfit";
    case Reason::NoPolicy:
      return "no_policy";
    case Reason::SteppedDown:
      return "stepped_down";
    case Reason::StoreWentBack:
      return "store_went_back";
    case Reason::MirrorPod:
      return "mirror_pod";
    case Reason::DaemonSetPod:
      return "daemon_set_pod";
    case Reason::FinishedPod:
      return "finished_pod";
    case Reason::BarePod:
      return "bare_pod";
    case Reason::OwnerNotController:
      return "owner_not_controller";
    case Reason::HandledBefore:
      return "handled_before";
    case Reason::PolicySkips:
      return "policy_skips";
    case Reason::PolicyForbids:
      return "policy_forbids";
    case Reason::PolicyHolds:
      return "policy_holds";
    case Reason::PolicyWaits:
      return "policy_waits";
    case Reason::PolicyDeletesPod:
      return "policy_deletes_pod";
    case Reason::PolicyDeletesPodAndAttachments:
      return "policy_deletes_pod_and_attachments";
    case Reason::PolicyDeletesAttachments:
      return "policy_deletes_attachments";
    case Reason::PolicyReleases:
      return "policy_releases";
    case Reason::PolicyHoldsNode:
      return "policy_holds_node";
    case Reason::NeedsUnread:
      return "needs_unread";
    case Reason::PolicyFailed:
      return "policy_failed";
    case Reason::PolicyFailing:
      return "policy_failing";
    case Reason::PolicyConflict:
      return "policy_conflict";
    case Reason::ShadowDiffers:
      return "shadow_differs";
    case Reason::ModeObserves:
      return "mode_observes";
    case Reason::IncidentClosed:
      return "incident_closed";
    case Reason::NotLeader:
      return "not_leader";
    case Reason::ReadingTooOld:
      return "reading_too_old";
    case Reason::NodeNotDown:
      return "node_not_down";
    case Reason::NotTainted:
      return "not_tainted";
    case Reason::WrongNode:
      return "wrong_node";
    case Reason::OutsideBinding:
      return "outside_binding";
    case Reason::ProtectedNamespace:
      return "protected_namespace";
    case Reason::OwnNode:
      return "own_node";
    case Reason::PolicyChanged:
      return "policy_changed";
    case Reason::GuardFailed:
      return "guard_failed";
    case Reason::GuardBroken:
      return "guard_broken";
    case Reason::ReleaseNotServed:
      return "release_not_served";
    case Reason::VolumeUnfit:
      return "volume_unfit";
    case Reason::AttachmentPresent:
      return "attachment_present";
    case Reason::NodeRestarted:
      return "node_restarted";
    case Reason::ControllerSilent:
      return "controller_silent";
    case Reason::StorageWithdrawn:
      return "storage_withdrawn";
    case Reason::DriverNotDeclared:
      return "driver_not_declared";
    case Reason::AttachmentMismatch:
      return "attachment_mismatch";
    case Reason::NotHeldByAttacher:
      return "not_held_by_attacher";
    case Reason::VolumeInUse:
      return "volume_in_use";
    case Reason::PodNotTerminating:
      return "pod_not_terminating";
    case Reason::OutOfService:
      return "out_of_service";
    case Reason::TaintNotServed:
      return "taint_not_served";
    case Reason::VersionUnknown:
      return "version_unknown";
    case Reason::TaintNotAllowed:
      return "taint_not_allowed";
    case Reason::PodsUnknown:
      return "pods_unknown";
    case Reason::OnHold:
      return "on_hold";
    case Reason::HoldUnknown:
      return "hold_unknown";
    case Reason::NoUid:
      return "no_uid";
    case Reason::AuditUnwritable:
      return "audit_unwritable";
    case Reason::NotRecorded:
      return "not_recorded";
    case Reason::Done:
      return "done";
    case Reason::MarkedOnly:
      return "marked_only";
    case Reason::AlreadyGone:
      return "already_gone";
    case Reason::Replaced:
      return "replaced";
    case Reason::SetsQuarantine:
      return "sets_quarantine";
    case Reason::SetsOutOfService:
      return "sets_out_of_service";
    case Reason::LiftsQuarantine:
      return "lifts_quarantine";
    case Reason::ReplacementReady:
      return "replacement_ready";
    case Reason::ReplacementNotNeeded:
      return "replacement_not_needed";
    case Reason::ReplacementAbsent:
      return "replacement_absent";
    case Reason::PodLingers:
      return "pod_lingers";
    case Reason::ReplacementUnscheduled:
      return "replacement_unscheduled";
    case Reason::ReplacementMisplaced:
      return "replacement_misplaced";
    case Reason::ReplacementUnattached:
      return "replacement_unattached";
    case Reason::ReplacementStarting:
      return "replacement_starting";
    case Reason::NotProvenClean:
      return "not_proven_clean";
    case Reason::NodeChanged:
      return "node_changed";
    case Reason::Refused:
      return "refused";
    case Reason::Deposed:
      return "deposed";
    case Reason::Retryable:
      return "retryable";
    case Reason::ReleaseOvertaken:
      return "release_overtaken";
    case Reason::Detached:
      return "detached";
    case Reason::ReleaseAcknowledged:
      return "release_acknowledged";
    case Reason::OutcomeLost:
      return "outcome_lost";
  }
  return {};
}

// Nobody writes them down a second time: one that were forgotten would be missing in every test
// that goes over all of them. The compiler sees to it that each has its word.
constexpr std::size_t kCount = [] {
  std::size_t count = 0;
  while (!word_of(static_cast<Reason>(count)).empty()) {
    ++count;
  }
  return count;
}();

constexpr auto kAll = [] {
  std::array<Reason, kCount> all{};
  for (std::size_t i = 0; i < kCount; ++i) {
    all[i] = static_cast<Reason>(i);
  }
  return all;
}();

}  // namespace

std::string_view code(Reason reason) {
  const std::string_view word = word_of(reason);
  MOONFENCE_CHECK(!word.empty());
  return word;
}

std::optional<Reason> find_reason(std::string_view code) {
  const auto* found = std::find_if(kAll.begin(), kAll.end(),
                                   [code](Reason each) { return audit::code(each) == code; });
  return found == kAll.end() ? std::nullopt : std::optional(*found);
}

std::span<const Reason> all_reasons() {
  return kAll;
}

}  // namespace moonfence::audit
