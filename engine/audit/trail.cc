#include "audit/trail.h"

#include <nlohmann/json.hpp>

namespace moonfence::audit {

std::string_view to_string(Record::Kind kind) {
  switch (kind) {
    case Record::Kind::IncidentOpened:
      return "incident_opened";
    case Record::Kind::IncidentClosed:
      return "incident_closed";
    case Record::Kind::IncidentHeld:
      return "incident_held";
    case Record::Kind::Verdict:
      return "verdict";
    case Record::Kind::Refusal:
      return "refusal";
    case Record::Kind::Intent:
      return "intent";
    case Record::Kind::Outcome:
      return "outcome";
    case Record::Kind::Replacement:
      return "replacement";
  }
  return "verdict";
}

std::string to_json(const Record& record, std::uint64_t sequence, WallTime at) {
  nlohmann::ordered_json line;
  const auto add = [&line](const char* key, const std::string& value) {
    if (!value.empty()) {
      line[key] = value;
    }
  };
  line["schema"] = 1;
  line["sequence"] = sequence;
  line["time"] = format_rfc3339_micro(at);
  line["kind"] = to_string(record.kind);
  line["reason"] = code(record.reason);
  add("incident", record.incident.text());
  add("node", record.node.text());
  add("node_uid", record.node_uid.text());
  if (record.pod) {
    line["namespace"] = record.pod->space.text();
    line["pod"] = record.pod->name;
  }
  add("pod_uid", record.pod_uid.text());
  add("attachment", record.attachment);
  add("attachment_uid", record.attachment_uid.text());
  add("action", record.action);
  add("instead_of", record.instead_of);
  if (record.attempt > 0) {
    line["attempt"] = record.attempt;
  }
  add("policy", record.policy);
  add("policy_digest", record.policy_digest);
  add("text", record.text);
  add("server_audit_id", record.server_audit_id);
  if (record.took > Duration::zero()) {
    line["took_us"] = std::chrono::duration_cast<std::chrono::microseconds>(record.took).count();
  }
  // Names and error texts come from outside: bytes that are no UTF-8 become U+FFFD, never an
  // exception.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<void> Trail::write(const Record& record) {
  const std::string line = to_json(record, sequence_ + 1, clock_.now());
  auto written = sink_.append(record, line);
  if (written) {
    ++sequence_;
  } else {
    ++failures_;
  }
  return written;
}

}  // namespace moonfence::audit
