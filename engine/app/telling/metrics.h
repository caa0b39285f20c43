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

#include "app/delivery/delivery.h"
#include "app/status/status_snapshot.h"
#include "audit/trail.h"
#include "cluster/detection/detection.h"
#include "cluster/nodes/node_cache.h"
#include "cluster/witness/witnesses.h"
#include "fence/leadership/limits.h"
#include "kube/watching/watcher.h"
#include "kube/wire/caller.h"
#include "os/system/process_usage.h"
#include "policy/bundle/reload_report.h"
#include "policy/host/policy.h"
#include "port/wall_clock.h"

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
  // What follows the API server's pace (kube/wire/server_pace.h). `term`: of our Lease; zero
  // without.
  void set_pace(const fence::Limits& limits, Duration term, bool too_slow);
  // Whether we doubt ourselves, and each cause as it begins (fence/rules/self_doubt.h).
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
    std::string state;  // policy/bundle/reload_report.h
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
  // How long a stage of a failover took (app/telling/failover_times.h).
  void observe_stage(std::string_view stage, Duration took);
  // What one run of a policy took.
  void count_run(const std::string& policy, const policy::Usage& usage);
  void set_events(std::size_t queued, std::uint64_t dropped);
  // Messages to a receiver outside the cluster, which the delivery names.
  void set_delivery(const Delivery& delivery);
  void set_rejected_spans(std::uint64_t rejected);
  // `what`: "incidents", "spans".
  void set_left_out_of_traces(const std::string& what, std::uint64_t count);
  void set_missed_heartbeats(int misses);
  // Where machines are watched.
  void set_detection(const cluster::Detection::Counts& counts,
                     const cluster::Silences::Lasted& silences);
  void set_witnesses(const cluster::Witnesses::Counts& counts);
  // When the certificate of the servers ends; not called without one.
  void set_serving_certificate(WallTime expires);
  // A request at a server that asks who reads, by the status of its answer; 200: let in. From any
  // thread.
  void reader_answered(int status);
  // What the process takes; told by whoever runs in one of its own.
  void set_process(const os::ProcessUsage& usage, WallTime started);

  // The text format 0.0.4. Thread-safe.
  [[nodiscard]] std::string exposition() const;

 private:
  void raise_to(prometheus::Counter& counter, double value);

  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Counters = prometheus::Family<prometheus::Counter>;
  using Histograms = prometheus::Family<prometheus::Histogram>;
  Gauges& gauge(const char* name, const char* help);
  Counters& counter(const char* name, const char* help);
  Histograms& histogram(const char* name, const char* help);

  using Shown = std::map<prometheus::Labels, prometheus::Gauge*>;
  // Makes the family show exactly these.
  static void show(Gauges& family, Shown& shown,
                   const std::map<prometheus::Labels, double>& wanted);

  prometheus::Registry registry_;
  Shown shown_policies_;
  Shown shown_stale_;
  Shown shown_sources_;
  Shown shown_unbound_;
  Shown shown_absent_;
  Shown shown_awaited_;
  Shown shown_stands_;
  Gauges& build_ = gauge("moonfence_build_info", "Always 1; the labels say what is running");
  Gauges& policy_ =
      gauge("moonfence_policy_info", "Always 1 for each bound policy; digest is what runs");
  Gauges& policy_stale_ = gauge("moonfence_policy_stale_seconds",
                                "Seconds since a rejected edit left the last good version running");
  Gauges& fencing_off_ =
      gauge("moonfence_fencing_off",
            "1 for the reason why nothing is fenced whatever fails, 0 for the others");
  Gauges& sources_ = gauge(
      "moonfence_health_source_unreadable",
      "1 for each policy whose health source has not been readable for a minute, 0 for the others");
  Gauges& policy_unbound_ =
      gauge("moonfence_policy_unbound",
            "Always 1 for each policy of the ConfigMap that no binding names");
  Gauges& policy_absent_ = gauge("moonfence_policy_absent_namespaces",
                                 "Namespaces that the policy is bound to and that do not exist");
  Counters& policy_reloads_ =
      counter("moonfence_policy_reload_total", "Edits of the policies taken up, by result");
  Gauges& nodes_ = gauge("moonfence_nodes", "Nodes in the cache by state");
  Gauges& open_ = gauge("moonfence_incidents_open", "Nodes being dealt with now");
  Gauges& leader_ =
      gauge("leader_election_master_status", "1 while this replica is the one that acts");
  Counters& opened_ = counter("moonfence_incidents_opened_total", "Incidents opened, by reason");
  Counters& closed_ = counter("moonfence_incidents_closed_total", "Incidents closed, by reason");
  Counters& held_ =
      counter("moonfence_incidents_held_total", "Incidents that had to wait, by reason");
  Gauges& brake_engaged_ =
      gauge("moonfence_brake_engaged", "1 while too many nodes are down for any to be fenced");
  Gauges& brake_zones_ =
      gauge("moonfence_brake_disrupted_zones", "Zones in which nodes are fenced one at a time");
  Gauges& brake_fencing_ =
      gauge("moonfence_nodes_being_fenced", "Nodes that are judged or acted on now");
  Gauges& brake_waiting_ = gauge("moonfence_incidents_braked", "Incidents that wait for the brake");
  Gauges& failing_ =
      gauge("moonfence_incidents_failing",
            "Incidents in which something has failed for a minute and is tried again");
  Gauges& stands_ = gauge("moonfence_incidents_stand", "Open incidents by how they stand, and why");
  Gauges& workers_ = gauge("moonfence_brake_workers",
                           "Nodes that the brake counts, and those of them that are newly down");
  Gauges& limits_off_ = gauge("moonfence_brake_limit_off",
                              "1 for each limit of the brake that the configuration switches off");
  Gauges& awaited_ = gauge("moonfence_replacements_awaited",
                           "Deleted pods without a replacement that is Ready, by what keeps it");
  Counters& replacements_ = counter("moonfence_replacements_total",
                                    "What was told of the replacements of deleted pods, by reason");
  Gauges& limits_ =
      gauge("moonfence_limit_seconds",
            "How old a reading may be (reading), how long a call may take (call), how long a term "
            "of the Lease lasts (term): they follow the API server's pace");
  Gauges& too_slow_ =
      gauge("moonfence_api_server_too_slow",
            "1 while the API server takes longer than any limit allows: nothing is done");
  Gauges& doubts_ = gauge("moonfence_self_doubt",
                          "1 while nothing is done because the engine doubts its own picture");
  Counters& doubt_causes_ =
      counter("moonfence_self_doubts_total", "Times the engine began to doubt itself, by cause");
  Gauges& quarantined_ =
      gauge("moonfence_nodes_quarantined",
            "Nodes with our taint: fenced; kept, of these back and not proven clean; silent, with "
            "moonfence.io/silent");
  Counters& verdicts_ = counter("moonfence_verdicts_total",
                                "New or changed decisions about pods of failed nodes, by reason");
  Counters& refusals_ = counter("moonfence_guard_refusals_total",
                                "Actions that the guard did not let pass, by reason");
  Counters& actions_ = counter("moonfence_actions_total", "Destructive calls, by how they ended");
  Histograms& action_seconds_ =
      histogram("moonfence_action_seconds", "From the recorded intent to the recorded outcome");
  Histograms& overlap_seconds_ =
      histogram("moonfence_release_overlap_seconds",
                "From a volume's being taken off a node to that node's return");
  Counters& audit_failures_ =
      counter("moonfence_audit_write_failures_total", "Audit records that could not be written");
  Gauges& watch_silence_ =
      gauge("moonfence_watch_silence_seconds", "Since the last event, bookmark or list");
  Gauges& watch_connected_ = gauge("moonfence_watch_connected", "1 while a watch stream is open");
  Counters& watch_events_ = counter("moonfence_watch_events_total", "Events received");
  Counters& watch_relists_ = counter("moonfence_watch_relists_total", "Full lists read");
  Counters& watch_restarts_ =
      counter("moonfence_watch_restarts_total", "Watch streams opened again");
  Counters& watch_bookmarks_ = counter("moonfence_watch_bookmarks_total", "Bookmarks received");
  Counters& requests_ =
      counter("rest_client_requests_total", "Requests to the API server by method and status code");
  Histograms& request_seconds_ =
      histogram("rest_client_request_duration_seconds",
                "Duration of requests to the API server, watches excluded");
  Counters& intents_ =
      counter("moonfence_intents_total", "Destructive calls that were about to be made, by reason");
  Counters& differences_ =
      counter("moonfence_shadow_differences_total",
              "Pods for which observing came to something else than enforcing");
  Histograms& stage_seconds_ =
      histogram("moonfence_failover_stage_seconds", "How long each stage of a failover took");
  Gauges& reloaded_ = gauge("moonfence_policy_last_reload_success_timestamp_seconds",
                            "When the policies were last taken up without a fault");
  Histograms& run_seconds_ =
      histogram("moonfence_policy_run_seconds", "CPU time of one question to a policy");
  Histograms& run_bytes_ = histogram("moonfence_policy_run_memory_bytes",
                                     "Memory that one question to a policy took at its peak");
  Gauges& events_queued_ =
      gauge("moonfence_events_queued", "Kubernetes events that wait to be sent");
  Counters& events_dropped_ =
      counter("moonfence_events_dropped_total", "Kubernetes events that were not sent");
  Counters& delivered_ =
      counter("moonfence_delivery_delivered_total", "Messages that their receiver took");
  Counters& delivery_failures_ = counter("moonfence_delivery_failed_attempts_total",
                                         "Attempts to deliver a message that failed");
  Counters& delivery_lost_ =
      counter("moonfence_delivery_lost_total", "Messages that were not delivered, by why");
  Gauges& delivery_waiting_ =
      gauge("moonfence_delivery_waiting", "Messages that wait to be delivered");
  Counters& rejected_spans_ =
      counter("moonfence_traces_rejected_spans_total",
              "Spans that the receiver of traces did not keep of requests that it took");
  Counters& left_out_of_traces_ =
      counter("moonfence_traces_left_out_total",
              "Incidents of which no trace was made, and spans that were left out, by what");
  Gauges& missed_heartbeats_ = gauge("moonfence_api_server_missed_heartbeats",
                                     "Heartbeats in a row that the API server did not answer");
  Gauges& kernels_ = gauge("moonfence_detection_nodes",
                           "Nodes by what their machine's kernel answers, where that is watched");
  Counters& silences_ = counter("moonfence_detection_silences_total",
                                "Times a machine was silent for at least so long and came back "
                                "without having been restarted");
  Gauges& witnesses_ = gauge("moonfence_detection_witnesses",
                             "Other replicas that are asked about machines, and those of them that "
                             "did not answer as they should");
  Gauges& silent_nodes_ = gauge("moonfence_detection_silent_nodes",
                                "Nodes whose machine is silent to this replica, by what another "
                                "one says of it");
  Gauges& fencers_ =
      gauge("moonfence_fencer_nodes",
            "Nodes whose fencers work, have failed twice in a row (broken), or are none, as the "
            "leader has asked them; 0 where none is configured");
  Gauges& serving_certificate_ =
      gauge("moonfence_serving_certificate_expiry_timestamp_seconds",
            "When the certificate ends with which metrics and status page are served");
  Counters& readers_ = counter("moonfence_readers_total",
                               "Requests for metrics and status page by HTTPS, by what the reader "
                               "was told; 200: let in");
  Counters& cpu_seconds_ =
      counter("process_cpu_seconds_total", "CPU time spent, of user and system");
  Gauges& resident_bytes_ = gauge("process_resident_memory_bytes", "Memory that is resident");
  Gauges& open_files_ = gauge("process_open_fds", "File descriptors that are open");
  Gauges& most_files_ = gauge("process_max_fds", "File descriptors that may be open");
  Gauges& started_at_ =
      gauge("process_start_time_seconds", "When the process started, since the epoch");
};

}  // namespace moonfence::app
