#pragma once

// Snapshots for the status page's tests: a small cluster in a few states.

#include <memory>
#include <string>

#include "app/status/incident_book.h"
#include "app/status/status_snapshot.h"
#include "app/web/status_frame.h"
#include "unit/app/records_fixture.h"

namespace moonfence::app {

inline const WallTime kTestNow = *parse_rfc3339("2026-03-04T10:30:00Z");

inline cluster::NodeView node_view(const std::string& name, cluster::Readiness readiness) {
  cluster::NodeView view;
  view.name = NodeName(name);
  view.uid = Uid("uid-" + name);
  view.readiness = readiness;
  view.since = kTestNow - std::chrono::minutes(90);
  view.zone = "west";
  return view;
}

inline policy::PolicyStatus policy_status(const std::string& name,
                                          policy::PolicyStatus::State state) {
  policy::PolicyStatus status;
  status.name = name;
  status.namespaces = "db";
  status.state = state;
  status.source = name + ".lua";
  status.digest = "0123456789abcdef0123456789abcdef";
  status.mode = policy::Mode::Enforce;
  status.since = kTestNow - std::chrono::hours(3);
  return status;
}

// Three Ready nodes, one policy, nothing happens.
inline StatusSnapshot quiet_snapshot() {
  StatusSnapshot snapshot;
  snapshot.taken = kTestNow - std::chrono::seconds(1);
  snapshot.replica = {.instance = "moonfence-0",
                      .node = "n3",
                      .server = "https://10.0.0.1:6443",
                      .started = kTestNow - std::chrono::hours(26),
                      .elects = true,
                      .leads = true,
                      .holder = "moonfence-0_3f09c1d2a7"};
  snapshot.guard.workers = 3;
  snapshot.guard.max_down = "50 %";
  snapshot.guard.at_once = "5 nodes";
  snapshot.guard.per_window = "10 nodes";
  snapshot.guard.window = "10m";
  snapshot.synced = true;
  snapshot.counts = {.total = 3, .ready = 3, .schedulable = 3};
  for (const char* name : {"n1", "n2", "n3"}) {
    snapshot.nodes.push_back(
        {.view = node_view(name, cluster::Readiness::True), .called_failed = false});
  }
  snapshot.policies.resource_version = "4711";
  snapshot.policies.observed_at = kTestNow - std::chrono::hours(3);
  snapshot.policies.active_set = "fedcba9876543210";
  snapshot.policies.mode = policy::Mode::Enforce;
  snapshot.policies.mode_set_by = "moonfence.yaml";
  snapshot.policies.policies = {policy_status("noobaa", policy::PolicyStatus::State::Active)};
  snapshot.versions["0123456789abcdef0123456789abcdef"] = "1.0.0";
  return snapshot;
}

inline audit::Record pod_record(audit::Record::Kind kind, audit::Reason reason,
                                const std::string& pod) {
  audit::Record record = record_of(kind, reason);
  record.pod = PodRef{.space = Namespace("db"), .name = pod};
  record.pod_uid = Uid("uid-" + pod);
  return record;
}

// n1 fell ten seconds ago: web-0 was deleted, web-1 refused, web-2 left alone.
inline void tell_incident(IncidentBook& book, const std::string& text = "the node is silent") {
  using audit::Reason;
  using Kind = audit::Record::Kind;
  const WallTime fell = kTestNow - std::chrono::seconds(10);
  audit::Record opened = record_of(Kind::IncidentOpened, Reason::NodeUnknown);
  opened.policy.clear();
  opened.text.clear();
  book.hear(opened, fell);
  audit::Record verdict = pod_record(Kind::Verdict, Reason::PolicyDeletesPod, "web-0");
  verdict.text = text;
  book.hear(verdict, fell + std::chrono::milliseconds(50));
  verdict = pod_record(Kind::Verdict, Reason::PolicyDeletesPod, "web-1");
  book.hear(verdict, fell + std::chrono::milliseconds(50));
  book.hear(pod_record(Kind::Verdict, Reason::PolicySkips, "web-2"),
            fell + std::chrono::milliseconds(51));
  book.hear(pod_record(Kind::Intent, Reason::PolicyDeletesPod, "web-0"),
            fell + std::chrono::milliseconds(60));
  book.hear(pod_record(Kind::Refusal, Reason::ProtectedNamespace, "web-1"),
            fell + std::chrono::milliseconds(61));
  book.hear(pod_record(Kind::Outcome, Reason::Done, "web-0"), fell + std::chrono::milliseconds(72));
}

inline StatusSnapshot fencing_snapshot(IncidentBook& book) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.nodes[0].view.readiness = cluster::Readiness::Unknown;
  snapshot.counts.ready = 2;
  snapshot.guard.workers_down = 1;
  snapshot.guard.down_text = "1 of 3 workers is newly down: n1";
  snapshot.guard.down_names = {"n1"};
  snapshot.guard.being_fenced = 1;
  snapshot.under_way = book.under_way();
  snapshot.past = book.past();
  snapshot.open_incidents = snapshot.under_way.size();
  return snapshot;
}

inline StatusView view_of(const StatusSnapshot& snapshot) {
  return {.snapshot = snapshot, .now = kTestNow, .refreshes = true, .root = ""};
}

}  // namespace moonfence::app
