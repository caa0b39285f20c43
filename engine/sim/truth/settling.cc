#include "sim/truth/settling.h"

#include <algorithm>

namespace moonfence::sim {
namespace {

// The kubelet's silence is noticed (40 s, checked every 5 s), a policy's hold-down passes, a call
// that went nowhere ends (6 s).
constexpr Duration kReaction = std::chrono::seconds(60);
// Until what failed is tried again: the longest pause, be it of what is to be done or of watches
// and unreadable nodes, with jitter.
constexpr Duration kBackOff = std::chrono::seconds(60);
bool disturbs(Verb verb) {
  switch (verb) {
    case Verb::PowerOff:
    case Verb::PartitionNode:
    case Verb::StopKubelet:
    case Verb::Freeze:
    case Verb::NotReady:
    case Verb::RemoveReady:
    case Verb::RemoveLease:
    case Verb::Heal:
    case Verb::ReplacePod:
    case Verb::DeletePod:
    case Verb::FailPod:
    case Verb::Scale:
    case Verb::SnapshotStore:
    case Verb::Calm:
      return false;
    case Verb::HoldNode:
    case Verb::HoldNamespace:
    case Verb::HoldPod:
    case Verb::Attest:
    case Verb::Isolate:
    case Verb::AnnotateNode:
    case Verb::LabelNode:
    case Verb::MarkUnknown:
    case Verb::DeleteNode:
    case Verb::RecreateNode:
    case Verb::AddFinalizer:
    case Verb::RemoveFinalizer:
    case Verb::EditPolicies:
    case Verb::DeletePolicies:
    case Verb::RestartServer:
    case Verb::Compact:
    case Verb::Outage:
    case Verb::RestoreStore:
    case Verb::HushWatches:
    case Verb::RefuseWrites:
    case Verb::HideObjects:
    case Verb::SlowServers:
    case Verb::StepServerClock:
    case Verb::StepNodeClock:
    case Verb::RestartControllers:
    case Verb::StopAttacher:
    case Verb::RefuseAttach:
    case Verb::RefuseDetach:
    case Verb::DeleteAttachments:
    case Verb::ReleaseVolumes:
    case Verb::TaintOutOfService:
    case Verb::CrashEngine:
    case Verb::StopEngine:
    case Verb::PauseEngine:
    case Verb::PartitionEngine:
    case Verb::CutLink:
    case Verb::StepClock:
      return true;
  }
  return true;
}

std::optional<Duration> setting(const Plan& plan, const std::string& name) {
  const auto found = plan.settings.find(name);
  return found == plan.settings.end() ? std::nullopt : parse_duration(found->second);
}

}  // namespace

bool is_calm(const Faults& faults) {
  const double sum = faults.refused + faults.lost_request + faults.lost_reply + faults.truncated +
                     faults.slow + faults.black_hole + faults.lost_packet + faults.too_many +
                     faults.internal + faults.internal_after_commit + faults.watch_duplicate +
                     faults.watch_cut;
  return sum <= 0 && faults.latency.to <= std::chrono::milliseconds(50) &&
         faults.cache_lag.to <= std::chrono::milliseconds(100);
}

Duration settling_time(const Plan& plan) {
  const bool disturbed =
      !is_calm(plan.faults) || std::any_of(plan.steps.begin(), plan.steps.end(),
                                           [](const Step& step) { return disturbs(step.verb); });
  return kReaction + (disturbed ? kBackOff : Duration::zero()) + plan.timings.boot;
}

Duration closing_time(const Plan& plan) {
  return settling_time(plan) + setting(plan, "replacement-wait").value_or(std::chrono::minutes(5));
}

}  // namespace moonfence::sim
