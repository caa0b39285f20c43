#pragma once

// An audit record as the fencing layer makes them.

#include "audit/trail.h"

namespace moonfence::app {

inline audit::Record record_of(audit::Record::Kind kind, audit::Reason reason) {
  audit::Record record;
  record.kind = kind;
  record.reason = reason;
  record.incident = IncidentId("i1");
  record.node = NodeName("n1");
  record.node_uid = Uid("node-1");
  record.policy = "noobaa";
  record.text = "because";
  const bool of_a_pod = kind == audit::Record::Kind::Verdict ||
                        kind == audit::Record::Kind::Refusal ||
                        kind == audit::Record::Kind::Intent || kind == audit::Record::Kind::Outcome;
  if (of_a_pod) {
    record.pod = PodRef{.space = Namespace("db"), .name = "web-0"};
    record.pod_uid = Uid("pod-1");
    record.attempt = 1;
  }
  if (of_a_pod && kind != audit::Record::Kind::Verdict) {
    record.action = "delete_pod";
    record.took = std::chrono::milliseconds(12);
  }
  if (kind == audit::Record::Kind::Replacement) {
    record.pod = PodRef{.space = Namespace("db"), .name = "web-0"};
    record.pod_uid = Uid("pod-1");
    record.took = std::chrono::milliseconds(12);
  }
  return record;
}

constexpr audit::Record::Kind kEveryKind[] = {
    audit::Record::Kind::IncidentOpened, audit::Record::Kind::IncidentClosed,
    audit::Record::Kind::IncidentHeld,   audit::Record::Kind::Verdict,
    audit::Record::Kind::Refusal,        audit::Record::Kind::Intent,
    audit::Record::Kind::Outcome,        audit::Record::Kind::Replacement};

}  // namespace moonfence::app
