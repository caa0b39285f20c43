#pragma once

// The engine's numbers, for machines. Counted by the same words as the audit (audit/reason.h).
// Label values are bounded: no pod, no UID, no node.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "app/process_metrics.h"
#include "app/status_snapshot.h"
#include "audit/trail.h"
#include "cluster/node_cache.h"
#include "fence/limits.h"
#include "kube/caller.h"
#include "kube/watcher.h"
#include "policy/policy.h"
#include "policy/reload_report.h"

namespace moonfence::app {

class Metrics final : public kube::CallObserver {
 public:
  Metrics();

  // Counts what an audit record says happened.
  void count(const audit::Record& record);
  void on_exchange(port::Method method, int status, Duration took,
                   std::optional<WallTime> server_date) override;

  void set_nodes(const cluster::NodeCounts& counts);
  // How the open incidents stand, the brake and the nodes with our taint: as the status page shows
  // it.
  void set_stands(const StatusSnapshot& snapshot);
  // Limits of the brake by name, and whether each is switched off.
  void set_limits(const std::map<std::string, bool>& switched_off);
  // Deleted pods without a replacement that is Ready, by what keeps it.
  void set_awaited_replacements(const std::map<audit::Reason, std::size_t>& awaited);
  void set_leader(bool leads);
  // What follows the API server's pace (kube/server_pace.h). `term`: of our Lease; zero without.
  void set_pace(const fence::Limits& limits, Duration term, bool too_slow);
  // Whether we doubt ourselves, and each cause as it begins (fence/self_doubt.h).
  void set_doubts(bool doubts);
  void count_doubt(const std::string& cause);
  void set_watch(const std::string& resource, const kube::WatchHealth& health, Duration silence);
  void set_audit_failures(std::uint64_t failures);
  // One of the policies in force, or of those that should be.
  struct PolicyInfo {
    std::string policy;
    std::string version;  // "" when nothing of it runs
    std::string digest;
    std::string mode;
    std::string state;  // policy/reload_report.h
  };
  void set_policies(const std::vector<PolicyInfo>& policies);
  // Why nothing is fenced, "" when something is.
  void set_idle(const std::string& reason);
  // Policies that no binding names.
  void set_unbound(const std::vector<std::string>& policies);
  // Policies that are bound to namespaces that do not exist, and to how many.
  void set_absent_namespaces(const std::map<std::string, std::size_t>& absent);
  // How long each has been running in place of a rejected edit; the others are not named.
  void set_stale(const std::map<std::string, Duration>& stale);
  void count_reload(bool accepted);
  // When the policies were last taken up without a fault.
  void set_reloaded(WallTime at);
  // How long a stage of a failover took (app/failover_times.h).
  void observe_stage(std::string_view stage, Duration took);
  // What one run of a policy took.
  void count_run(const std::string& policy, const policy::Usage& usage);
  void set_events(std::size_t queued, std::uint64_t dropped);
  void set_missed_heartbeats(int misses);
  // What the process takes; told by whoever runs in one of its own.
  void set_process(const os::ProcessUsage& usage, WallTime started) {
    process_.set(usage, started);
  }

  // The text format 0.0.4. Thread-safe.
  [[nodiscard]] std::string exposition() const;

 private:
  void raise_to(prometheus::Counter& counter, double value);

  using Gauges = std::map<prometheus::Labels, prometheus::Gauge*>;
  // Makes the family show exactly these.
  static void show(prometheus::Family<prometheus::Gauge>& family, Gauges& shown,
                   const std::map<prometheus::Labels, double>& wanted);

  prometheus::Registry registry_;
  Gauges shown_policies_;
  Gauges shown_stale_;
  Gauges shown_sources_;
  Gauges shown_unbound_;
  Gauges shown_absent_;
  Gauges shown_awaited_;
  Gauges shown_stands_;
  prometheus::Family<prometheus::Gauge>& build_;
  prometheus::Family<prometheus::Gauge>& policy_;
  prometheus::Family<prometheus::Gauge>& policy_stale_;
  prometheus::Family<prometheus::Gauge>& fencing_off_;
  prometheus::Family<prometheus::Gauge>& sources_;
  prometheus::Family<prometheus::Gauge>& policy_unbound_;
  prometheus::Family<prometheus::Gauge>& policy_absent_;
  prometheus::Family<prometheus::Counter>& policy_reloads_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Family<prometheus::Gauge>& open_;
  prometheus::Family<prometheus::Gauge>& leader_;
  prometheus::Family<prometheus::Counter>& opened_;
  prometheus::Family<prometheus::Counter>& closed_;
  prometheus::Family<prometheus::Counter>& held_;
  prometheus::Family<prometheus::Gauge>& brake_engaged_;
  prometheus::Family<prometheus::Gauge>& brake_zones_;
  prometheus::Family<prometheus::Gauge>& brake_fencing_;
  prometheus::Family<prometheus::Gauge>& brake_waiting_;
  prometheus::Family<prometheus::Gauge>& failing_;
  prometheus::Family<prometheus::Gauge>& stands_;
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Gauge>& limits_off_;
  prometheus::Family<prometheus::Gauge>& awaited_;
  prometheus::Family<prometheus::Counter>& replacements_;
  prometheus::Family<prometheus::Gauge>& limits_;
  prometheus::Family<prometheus::Gauge>& too_slow_;
  prometheus::Family<prometheus::Gauge>& doubts_;
  prometheus::Family<prometheus::Counter>& doubt_causes_;
  prometheus::Family<prometheus::Gauge>& quarantined_;
  prometheus::Family<prometheus::Counter>& verdicts_;
  prometheus::Family<prometheus::Counter>& refusals_;
  prometheus::Family<prometheus::Counter>& actions_;
  prometheus::Family<prometheus::Histogram>& action_seconds_;
  prometheus::Family<prometheus::Histogram>& overlap_seconds_;
  prometheus::Family<prometheus::Counter>& audit_failures_;
  prometheus::Family<prometheus::Gauge>& watch_silence_;
  prometheus::Family<prometheus::Gauge>& watch_connected_;
  prometheus::Family<prometheus::Counter>& watch_events_;
  prometheus::Family<prometheus::Counter>& watch_relists_;
  prometheus::Family<prometheus::Counter>& watch_restarts_;
  prometheus::Family<prometheus::Counter>& watch_bookmarks_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& request_seconds_;
  prometheus::Family<prometheus::Counter>& intents_;
  prometheus::Family<prometheus::Counter>& differences_;
  prometheus::Family<prometheus::Histogram>& stage_seconds_;
  prometheus::Family<prometheus::Gauge>& reloaded_;
  prometheus::Family<prometheus::Histogram>& run_seconds_;
  prometheus::Family<prometheus::Histogram>& run_bytes_;
  prometheus::Family<prometheus::Gauge>& events_queued_;
  prometheus::Family<prometheus::Counter>& events_dropped_;
  prometheus::Family<prometheus::Gauge>& missed_heartbeats_;
  ProcessMetrics process_;
};

}  // namespace moonfence::app
