#include "app/telling/metrics.h"

#include <prometheus/text_serializer.h>

#include "app/settings/version.h"
#include "app/telling/failover_times.h"

namespace moonfence::app {
namespace {

const prometheus::Histogram::BucketBoundaries& latency_buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
  return buckets;
}

// From a live read to a storage system that takes its time.
const prometheus::Histogram::BucketBoundaries& stage_buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600};
  return buckets;
}

const prometheus::Histogram::BucketBoundaries& run_buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {0.00005, 0.0001, 0.00025, 0.0005,
                                                                  0.001,   0.0025, 0.01,    0.1};
  return buckets;
}

const prometheus::Histogram::BucketBoundaries& memory_buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {65536,   131072,  262144,  524288,
                                                                  1048576, 4194304, 16777216};
  return buckets;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Metrics::Gauges& Metrics::gauge(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
}

Metrics::Counters& Metrics::counter(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
}

Metrics::Histograms& Metrics::histogram(const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
}

Metrics::Metrics() {
  build_.Add({{"version", std::string(version())}, {"commit", std::string(commit())}}).Set(1);
  set_doubts(false);
  set_pace({}, {}, false);
  set_stands({});
  set_witnesses({});
  set_detection({}, {});  // an alert asks for it, also where machines are not watched
  set_audit_failures(0);
  set_events(0, 0);
  set_missed_heartbeats(0);
  for (const std::string_view stage : FailoverTimes::stages()) {
    stage_seconds_.Add({{"stage", std::string(stage)}}, stage_buckets());
  }
}

void Metrics::count(const audit::Record& record) {
  const std::string reason(audit::code(record.reason));
  switch (record.kind) {
    case audit::Record::Kind::IncidentOpened:
      opened_.Add({{"reason", reason}}).Increment();
      return;
    case audit::Record::Kind::IncidentClosed:
      closed_.Add({{"reason", reason}}).Increment();
      return;
    case audit::Record::Kind::IncidentHeld:
      held_.Add({{"reason", reason}}).Increment();
      return;
    case audit::Record::Kind::Intent:
      intents_.Add({{"action", record.action}, {"reason", reason}}).Increment();
      return;
    case audit::Record::Kind::Verdict:
      if (record.reason == audit::Reason::ShadowDiffers) {
        differences_
            .Add({{"policy", record.policy},
                  {"observed", record.action},
                  {"enforced", record.instead_of}})
            .Increment();
      }
      verdicts_.Add({{"policy", record.policy}, {"reason", reason}}).Increment();
      return;
    case audit::Record::Kind::Refusal:
      refusals_.Add({{"action", record.action}, {"reason", reason}}).Increment();
      if (record.reason == audit::Reason::StorageWithdrawn && record.took > Duration::zero()) {
        overlap_seconds_.Add({}, stage_buckets()).Observe(seconds(record.took));
      }
      return;
    case audit::Record::Kind::Outcome:
      actions_.Add({{"policy", record.policy}, {"action", record.action}, {"result", reason}})
          .Increment();
      action_seconds_.Add({{"action", record.action}}, latency_buckets())
          .Observe(seconds(record.took));
      return;
    case audit::Record::Kind::Replacement:
      replacements_.Add({{"reason", reason}}).Increment();
      return;
  }
}

void Metrics::on_exchange(port::Method method, int status, Duration took,
                          std::optional<WallTime> /*server_date*/) {
  const std::string verb(port::to_string(method));
  // 0: no answer at all. client-go calls it "<error>".
  const std::string code = status == 0 ? "<error>" : std::to_string(status);
  requests_.Add({{"method", verb}, {"code", code}}).Increment();
  request_seconds_.Add({{"method", verb}}, latency_buckets()).Observe(seconds(took));
}

void Metrics::set_nodes(const cluster::NodeCounts& counts) {
  nodes_.Add({{"state", "ready"}}).Set(static_cast<double>(counts.ready));
  nodes_.Add({{"state", "not_ready"}}).Set(static_cast<double>(counts.total - counts.ready));
}

void Metrics::set_stands(const StatusSnapshot& snapshot) {
  const StatusSnapshot::Guard& guard = snapshot.guard;
  const auto set = [](prometheus::Family<prometheus::Gauge>& family,
                      const prometheus::Labels& labels,
                      auto value) { family.Add(labels).Set(static_cast<double>(value)); };
  set(open_, {}, snapshot.open_incidents);
  set(failing_, {}, guard.failing);
  set(brake_engaged_, {}, guard.too_many_down ? 1 : 0);
  set(brake_zones_, {}, guard.disrupted_zones);
  set(brake_fencing_, {}, guard.being_fenced);
  set(brake_waiting_, {}, guard.waiting);
  set(workers_, {{"state", "all"}}, guard.workers);
  set(workers_, {{"state", "newly_down"}}, guard.workers_down);
  set(quarantined_, {{"state", "fenced"}}, guard.fenced_nodes);
  set(quarantined_, {{"state", "kept"}}, guard.doubtful_nodes);
  set(quarantined_, {{"state", "silent"}}, guard.silent_nodes);
  const fence::FencerCounts fencers =
      snapshot.fencers ? snapshot.fencers->counts : fence::FencerCounts();
  set(fencers_, {{"state", "works"}}, fencers.works);
  set(fencers_, {{"state", "broken"}}, fencers.broken);
  set(fencers_, {{"state", "none"}}, fencers.none);
  std::map<prometheus::Labels, double> wanted;
  for (const StatusSnapshot::Stand& stand : snapshot.stands) {
    const fence::IncidentStatus& incident_status = stand.incident_status;
    wanted[{{"state", std::string(to_string(incident_status.state))},
            {"reason", std::string(incident_status.reason ? audit::code(*incident_status.reason)
                                                          : "")}}] += 1;
  }
  show(stands_, shown_stands_, wanted);
  std::map<prometheus::Labels, double> sources;
  for (const policy::PolicyStatus& policy : snapshot.policies.policies) {
    sources[{{"policy", policy.name}}] = 0;
  }
  for (const fence::SourceState& source : guard.sources) {
    double& unreadable = sources[{{"policy", source.policy}}];
    unreadable = source.fault.empty() ? unreadable : 1;
  }
  show(sources_, shown_sources_, sources);
}

void Metrics::set_limits(const std::map<std::string, bool>& switched_off) {
  for (const auto& [limit, is_off] : switched_off) {
    limits_off_.Add({{"limit", limit}}).Set(is_off ? 1 : 0);
  }
}

void Metrics::set_awaited_replacements(const std::map<audit::Reason, std::size_t>& awaited) {
  std::map<prometheus::Labels, double> wanted;
  for (const auto& [reason, pods] : awaited) {
    wanted[{{"reason", std::string(audit::code(reason))}}] = static_cast<double>(pods);
  }
  show(awaited_, shown_awaited_, wanted);
}

void Metrics::set_pace(const fence::Limits& limits, Duration term, bool too_slow) {
  const auto show_limit = [this](const char* what, Duration limit) {
    limits_.Add({{"what", what}}).Set(std::chrono::duration<double>(limit).count());
  };
  show_limit("reading", limits.reading);
  show_limit("call", limits.call);
  show_limit("term", term);
  too_slow_.Add({}).Set(too_slow ? 1 : 0);
}

void Metrics::set_doubts(bool doubts) {
  doubts_.Add({}).Set(doubts ? 1 : 0);
}

void Metrics::count_doubt(const std::string& cause) {
  doubt_causes_.Add({{"cause", cause}}).Increment();
}

void Metrics::set_leader(bool leads) {
  leader_.Add({{"name", "moonfence"}}).Set(leads ? 1 : 0);
}

void Metrics::set_watch(const std::string& resource, const kube::WatchHealth& health,
                        Duration silence) {
  const prometheus::Labels labels = {{"resource", resource}};
  watch_silence_.Add(labels).Set(seconds(silence));
  watch_connected_.Add(labels).Set(health.connected ? 1 : 0);
  raise_to(watch_events_.Add(labels), static_cast<double>(health.events));
  raise_to(watch_relists_.Add(labels), static_cast<double>(health.relists));
  raise_to(watch_restarts_.Add(labels), static_cast<double>(health.restarts));
  raise_to(watch_bookmarks_.Add(labels), static_cast<double>(health.bookmarks));
}

void Metrics::set_audit_failures(std::uint64_t failures) {
  raise_to(audit_failures_.Add({}), static_cast<double>(failures));
}

void Metrics::set_policies(const std::vector<PolicyInfo>& policies) {
  std::map<prometheus::Labels, double> wanted;
  for (const PolicyInfo& info : policies) {
    wanted[{{"policy", info.policy},
            {"version", info.version},
            {"digest", info.digest},
            {"mode", info.mode},
            {"state", info.state}}] = 1;
  }
  show(policy_, shown_policies_, wanted);
}

void Metrics::set_idle(const std::string& reason) {
  for (const auto kind :
       {policy::Idleness::Kind::NoConfigMap, policy::Idleness::Kind::ModeOff,
        policy::Idleness::Kind::NothingBound, policy::Idleness::Kind::NothingRuns}) {
    const std::string name(policy::to_string(kind));
    fencing_off_.Add({{"reason", name}}).Set(name == reason ? 1 : 0);
  }
}

void Metrics::set_unbound(const std::vector<std::string>& policies) {
  std::map<prometheus::Labels, double> wanted;
  for (const std::string& policy : policies) {
    wanted[{{"policy", policy}}] = 1;
  }
  show(policy_unbound_, shown_unbound_, wanted);
}

void Metrics::set_absent_namespaces(const std::map<std::string, std::size_t>& absent) {
  std::map<prometheus::Labels, double> wanted;
  for (const auto& [policy, spaces] : absent) {
    wanted[{{"policy", policy}}] = static_cast<double>(spaces);
  }
  show(policy_absent_, shown_absent_, wanted);
}

void Metrics::set_stale(const std::map<std::string, Duration>& stale) {
  std::map<prometheus::Labels, double> wanted;
  for (const auto& [policy, age] : stale) {
    wanted[{{"policy", policy}}] = seconds(age);
  }
  show(policy_stale_, shown_stale_, wanted);
}

void Metrics::count_reload(bool accepted) {
  policy_reloads_.Add({{"result", accepted ? "accepted" : "rejected"}}).Increment();
}

void Metrics::set_reloaded(WallTime at) {
  reloaded_.Add({}).Set(std::chrono::duration<double>(at.time_since_epoch()).count());
}

void Metrics::observe_stage(std::string_view stage, Duration took) {
  stage_seconds_.Add({{"stage", std::string(stage)}}, stage_buckets()).Observe(seconds(took));
}

void Metrics::count_run(const std::string& policy, const policy::Usage& usage) {
  run_seconds_.Add({{"policy", policy}}, run_buckets()).Observe(seconds(usage.cpu));
  run_bytes_.Add({{"policy", policy}}, memory_buckets())
      .Observe(static_cast<double>(usage.memory_bytes));
}

void Metrics::set_events(std::size_t queued, std::uint64_t dropped) {
  events_queued_.Add({}).Set(static_cast<double>(queued));
  raise_to(events_dropped_.Add({}), static_cast<double>(dropped));
}

void Metrics::set_delivery(const Delivery& delivery) {
  const Delivery::Counts counts = delivery.counts();
  const prometheus::Labels to = {{"to", delivery.name()}};
  raise_to(delivered_.Add(to), static_cast<double>(counts.delivered));
  raise_to(delivery_failures_.Add(to), static_cast<double>(counts.failed_attempts));
  for (const auto& [why, number] : counts.lost) {
    raise_to(delivery_lost_.Add({{"to", delivery.name()}, {"reason", std::string(to_string(why))}}),
             static_cast<double>(number));
  }
  delivery_waiting_.Add(to).Set(static_cast<double>(counts.waiting));
}

void Metrics::set_rejected_spans(std::uint64_t rejected) {
  raise_to(rejected_spans_.Add({}), static_cast<double>(rejected));
}

void Metrics::set_left_out_of_traces(const std::string& what, std::uint64_t count) {
  raise_to(left_out_of_traces_.Add({{"what", what}}), static_cast<double>(count));
}

void Metrics::set_missed_heartbeats(int misses) {
  missed_heartbeats_.Add({}).Set(misses);
}

void Metrics::set_detection(const cluster::Detection::Counts& counts,
                            const cluster::Silences::Lasted& silences) {
  const auto set = [this](cluster::Kernel kernel, std::size_t count) {
    kernels_.Add({{"kernel", std::string(cluster::to_string(kernel))}})
        .Set(static_cast<double>(count));
  };
  set(cluster::Kernel::Answers, counts.answers);
  set(cluster::Kernel::Unsure, counts.unsure);
  set(cluster::Kernel::Silent, counts.silent);
  set(cluster::Kernel::NotObservable, counts.not_observable);
  for (std::size_t i = 0; i < silences.size(); ++i) {
    const Duration age = cluster::Silences::kAges.at(i);
    raise_to(silences_.Add({{"at_least", format_duration(age)}}),
             static_cast<double>(silences.at(i)));
  }
}

void Metrics::set_witnesses(const cluster::Witnesses::Counts& counts) {
  const auto set = [](Gauges& gauges, const char* label, const char* value, std::size_t count) {
    gauges.Add({{label, value}}).Set(static_cast<double>(count));
  };
  set(witnesses_, "state", "asked", counts.replicas);
  set(witnesses_, "state", "failing", counts.failing);
  set(silent_nodes_, "other_replica", "confirms", counts.confirmed);
  set(silent_nodes_, "other_replica", "hears", counts.heard);
}

void Metrics::show(Gauges& family, Shown& shown,
                   const std::map<prometheus::Labels, double>& wanted) {
  for (auto gauge = shown.begin(); gauge != shown.end();) {
    if (wanted.contains(gauge->first)) {
      ++gauge;
    } else {
      family.Remove(gauge->second);
      gauge = shown.erase(gauge);
    }
  }
  for (const auto& [labels, value] : wanted) {
    auto& gauge = shown[labels];
    if (gauge == nullptr) {
      gauge = &family.Add(labels);
    }
    gauge->Set(value);
  }
}

void Metrics::raise_to(prometheus::Counter& counter, double value) {
  const double before = counter.Value();
  if (value > before) {
    counter.Increment(value - before);
  }
}

void Metrics::set_serving_certificate(WallTime expires) {
  serving_certificate_.Add({}).Set(
      std::chrono::duration<double>(expires.time_since_epoch()).count());
}

void Metrics::reader_answered(int status) {
  readers_.Add({{"code", std::to_string(status)}}).Increment();
}

void Metrics::set_process(const os::ProcessUsage& usage, WallTime started) {
  raise_to(cpu_seconds_.Add({}), usage.cpu_seconds);
  resident_bytes_.Add({}).Set(usage.resident_bytes);
  open_files_.Add({}).Set(usage.open_files);
  most_files_.Add({}).Set(usage.most_files);
  started_at_.Add({}).Set(std::chrono::duration<double>(started.time_since_epoch()).count());
}

std::string Metrics::exposition() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace moonfence::app
