#pragma once

// StatusReporter makes the snapshots for the status page, on the loop's thread: it hears every
// audit record, and looks at the engine's parts when it is told to. It changes nothing, and nothing
// waits for it.

#include <memory>
#include <string>
#include <vector>

#include "app/policies/policy_feed.h"
#include "app/status/incident_book.h"
#include "app/status/status_board.h"
#include "app/telling/health.h"
#include "fence/brake/brake.h"
#include "fence/fencers/fencer_check.h"
#include "fence/incident/incidents_by_signal.h"
#include "fence/lift/taint_lifter.h"
#include "fence/rules/self_doubt.h"
#include "fence/silence/silent_taints.h"
#include "kube/leader_election/elector.h"

namespace moonfence::app {

class StatusReporter {
 public:
  // What it looks at.
  struct Subjects {
    const Health& health;
    const cluster::NodeCache& nodes;
    const fence::IncidentsBySignal& by_signal;
    const fence::Brake& brake;
    const fence::BrakeRules& brake_rules;
    const fence::TaintLifter& taint_lifter;
    const fence::SilentTaints& silent_taints;
    const fence::SelfDoubt& doubt;
    std::string slowness;  // see fence::Leadership
    const audit::Trail& trail;
    const policy::PolicySet& active;
    const PolicyFeed* feed;               // null: --policy
    const kube::Elector* elector;         // null: --leader-elect=false
    policy::Mode mode;                    // of --policy
    cluster::Detection* detection;        // null: machines are not watched
    const cluster::Witnesses* witnesses;  // likewise
    const cluster::MachineHistory& machine_history;
    const fence::FencerCheck* fencer_check;  // null: no fencer is bound
  };
  // Who we are: what does not change while we run.
  struct Identity {
    std::string instance;
    std::string node;
    std::string server;
    std::string policy_file;
    std::string witness_address;  // "" we are no witness
    std::string witness_key;
  };

  static constexpr std::size_t kMaxNodes = 250;
  static constexpr std::size_t kMaxMachines = 20;
  static constexpr Duration kPeriod = std::chrono::seconds(1);

  StatusReporter(StatusBoard& board, Identity identity, WallTime started)
      : board_(board), identity_(std::move(identity)), started_(started) {}
  StatusReporter(const StatusReporter&) = delete;
  StatusReporter& operator=(const StatusReporter&) = delete;

  void hear(const audit::Record& record, WallTime at) { book_.hear(record, at); }
  void recall(const fence::IncidentRecord& record) { book_.recall(record); }
  // Makes and publishes a snapshot, unless the last one is younger than the period.
  void publish(const Subjects& subjects, Moment now, WallTime wall);

 private:
  [[nodiscard]] StatusSnapshot::Replica replica(const Subjects& subjects, Moment now) const;
  void show_policies(StatusSnapshot& snapshot, const Subjects& subjects) const;

  StatusBoard& board_;
  const Identity identity_;
  const WallTime started_;
  std::optional<Moment> published_;
  IncidentBook book_;
};

}  // namespace moonfence::app
