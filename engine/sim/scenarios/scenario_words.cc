#include "sim/scenarios/scenario_words.h"

#include <array>

#include "sim/scenarios/scenario.h"

namespace moonfence::sim {

std::span<const VerbWord> verb_words() {
  static constexpr std::array<VerbWord, 51> kWords = {{
      {"power-off", Verb::PowerOff, Target::Node, ""},
      {"partition-node", Verb::PartitionNode, Target::Node, ""},
      {"stop-kubelet", Verb::StopKubelet, Target::Node, ""},
      {"freeze", Verb::Freeze, Target::Node, ""},
      {"not-ready", Verb::NotReady, Target::Node, ""},
      {"remove-ready", Verb::RemoveReady, Target::Node, ""},
      {"mark-unknown", Verb::MarkUnknown, Target::Node, ""},
      {"remove-lease", Verb::RemoveLease, Target::Node, ""},
      {"heal", Verb::Heal, Target::Node, ""},
      {"delete-node", Verb::DeleteNode, Target::Node, ""},
      {"recreate-node", Verb::RecreateNode, Target::Node, ""},
      {"hold-node", Verb::HoldNode, Target::Node, "why"},
      {"hold-namespace", Verb::HoldNamespace, Target::Namespace, "why"},
      {"hold-pod", Verb::HoldPod, Target::Pod, "why"},
      {"attest", Verb::Attest, Target::Node, "withdraw"},
      {"isolate", Verb::Isolate, Target::Node, ""},
      {"annotate-node", Verb::AnnotateNode, Target::Node, "key", true, "value"},
      {"label-node", Verb::LabelNode, Target::Node, "key", true, "value"},
      {"replace-pod", Verb::ReplacePod, Target::PodOrWorkload, ""},
      {"delete-pod", Verb::DeletePod, Target::PodOrWorkload, ""},
      {"fail-pod", Verb::FailPod, Target::PodOrWorkload, ""},
      {"add-finalizer", Verb::AddFinalizer, Target::Pod, "finalizer", true},
      {"remove-finalizer", Verb::RemoveFinalizer, Target::Pod, "finalizer", true},
      {"scale", Verb::Scale, Target::Workload, "replicas", true},
      {"edit-policies", Verb::EditPolicies, Target::Nothing, ""},
      {"delete-policies", Verb::DeletePolicies, Target::Nothing, ""},
      {"restart-server", Verb::RestartServer, Target::Server, "for"},
      {"compact", Verb::Compact, Target::Nothing, ""},
      {"outage", Verb::Outage, Target::Nothing, "for", true},
      {"snapshot-store", Verb::SnapshotStore, Target::Nothing, ""},
      {"restore-store", Verb::RestoreStore, Target::Nothing, "for"},
      {"hush-watches", Verb::HushWatches, Target::Watches, "for", true},
      {"refuse-writes", Verb::RefuseWrites, Target::Writes, "for", true, "how"},
      {"hide-objects", Verb::HideObjects, Target::Objects, "for", true, "times"},
      {"slow-servers", Verb::SlowServers, Target::Calls, "for", true, "by"},
      {"step-server-clock", Verb::StepServerClock, Target::Nothing, "by", true},
      {"step-node-clock", Verb::StepNodeClock, Target::Node, "by", true},
      {"restart-controllers", Verb::RestartControllers, Target::Nothing, "for"},
      {"stop-attacher", Verb::StopAttacher, Target::Nothing, "for"},
      {"refuse-attach", Verb::RefuseAttach, Target::Node, "for"},
      {"refuse-detach", Verb::RefuseDetach, Target::Node, "for"},
      {"delete-attachments", Verb::DeleteAttachments, Target::Node, ""},
      {"release-volumes", Verb::ReleaseVolumes, Target::Node, ""},
      {"taint-out-of-service", Verb::TaintOutOfService, Target::Node, ""},
      {"crash-engine", Verb::CrashEngine, Target::Replica, "for", false, "inside"},
      {"stop-engine", Verb::StopEngine, Target::Replica, "for"},
      {"pause-engine", Verb::PauseEngine, Target::Replica, "for", true},
      {"partition-engine", Verb::PartitionEngine, Target::Replica, "for", true},
      {"cut-link", Verb::CutLink, Target::Node, "for", true, "from"},
      {"step-clock", Verb::StepClock, Target::Replica, "by", true},
      {"calm", Verb::Calm, Target::Nothing, ""},
  }};
  return kWords;
}

std::string_view to_string(Verb verb) {
  for (const VerbWord& word : verb_words()) {
    if (word.verb == verb) {
      return word.name;
    }
  }
  return "step";
}

std::span<const TimingWord> timing_words() {
  static constexpr std::array<TimingWord, 9> kWords = {{
      {"lease-renewal", &Timings::lease_renewal},
      {"node-monitor-grace", &Timings::node_monitor_grace},
      {"node-monitor-period", &Timings::node_monitor_period},
      {"attach-detach-timeout", &Timings::attach_detach_timeout},
      {"attach-detach-resync", &Timings::attach_detach_resync},
      {"attach", &Timings::attach},
      {"detach", &Timings::detach},
      {"container-start", &Timings::container_start},
      {"boot", &Timings::boot},
  }};
  return kWords;
}

std::span<const ShareWord> share_words() {
  static constexpr std::array<ShareWord, 12> kWords = {{
      {"refused", &Faults::refused},
      {"lost-request", &Faults::lost_request},
      {"lost-reply", &Faults::lost_reply},
      {"truncated", &Faults::truncated},
      {"slow", &Faults::slow},
      {"black-hole", &Faults::black_hole},
      {"lost-packet", &Faults::lost_packet},
      {"too-many", &Faults::too_many},
      {"internal", &Faults::internal},
      {"internal-after-commit", &Faults::internal_after_commit},
      {"watch-duplicate", &Faults::watch_duplicate},
      {"watch-cut", &Faults::watch_cut},
  }};
  return kWords;
}

std::span<const RangeWord> range_words() {
  static constexpr std::array<RangeWord, 5> kWords = {{
      {"latency", &Faults::latency},
      {"piece-gap", &Faults::piece_gap},
      {"cache-lag", &Faults::cache_lag},
      {"skew", &Faults::skew},
      {"informer-lag", &Faults::informer_lag},
  }};
  return kWords;
}

std::span<const BmcWord> bmc_words() {
  static constexpr std::array<BmcWord, 11> kWords = {{
      {"honest", BmcKind::Honest},
      {"dead", BmcKind::Dead},
      {"busy", BmcKind::Busy},
      {"locked", BmcKind::Locked},
      {"broken", BmcKind::Broken},
      {"refusing", BmcKind::Refusing},
      {"stubborn", BmcKind::Stubborn},
      {"hanging", BmcKind::Hanging},
      {"stuck", BmcKind::Stuck},
      {"late", BmcKind::Late},
      {"lying", BmcKind::Lying},
  }};
  return kWords;
}

std::span<const FenceWord> fence_words() {
  static constexpr std::array<FenceWord, 4> kWords = {{
      {"honest", FenceKind::Honest},
      {"dead", FenceKind::Dead},
      {"failing", FenceKind::Failing},
      {"lying", FenceKind::Lying},
  }};
  return kWords;
}

std::span<const LiftingWord> lifting_words() {
  static constexpr std::array<LiftingWord, 3> kWords = {{
      {"nobody", Lifting::Nobody},
      {"by-object", Lifting::ByObject},
      {"in-storage", Lifting::InStorage},
  }};
  return kWords;
}

std::span<const WorkloadWord> workload_words() {
  static constexpr std::array<WorkloadWord, 6> kWords = {{
      {"statefulset", WorkloadKind::StatefulSet},
      {"deployment", WorkloadKind::Deployment},
      {"daemonset", WorkloadKind::DaemonSet},
      {"bare-pods", WorkloadKind::Bare},
      {"mirror-pods", WorkloadKind::Mirror},
      {"finished-pods", WorkloadKind::Finished},
  }};
  return kWords;
}

std::span<const std::string_view> setting_words() {
  static constexpr std::array<std::string_view, 6> kWords = {"brake-window",   "cache-expiry",
                                                             "cool-down",      "replacement-wait",
                                                             "retry-interval", "retry-window"};
  return kWords;
}

std::span<const std::string_view> switch_words() {
  static constexpr std::array<std::string_view, 4> kWords = {"release", kDetectionWord,
                                                             "silent-taint", "fail-pods"};
  return kWords;
}

std::span<const std::string_view> limit_words() {
  static constexpr std::array<std::string_view, 6> kWords = {
      "max-at-once",      "max-down",      "max-per-window",
      "zone-max-at-once", "zone-max-down", "zone-max-per-window"};
  return kWords;
}

}  // namespace moonfence::sim
