#include "audit/trail.h"

#include "base/json_text.h"

namespace moonfence::audit {
namespace {

constexpr std::size_t kUsualLine = 768;  // bytes

}  // namespace

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
  std::string out;
  out.reserve(kUsualLine);
  JsonObject line(out);
  line.set("schema", std::uint64_t{1});
  line.set("sequence", sequence);
  line.set("time", format_rfc3339_micro(at));
  line.set("kind", to_string(record.kind));
  line.set("reason", code(record.reason));
  line.set_if_any("incident", record.incident.text());
  line.set_if_any("node", record.node.text());
  line.set_if_any("node_uid", record.node_uid.text());
  if (record.pod) {
    line.set("namespace", record.pod->space.text());
    line.set("pod", record.pod->name);
  }
  line.set_if_any("pod_uid", record.pod_uid.text());
  line.set_if_any("attachment", record.attachment);
  line.set_if_any("attachment_uid", record.attachment_uid.text());
  line.set_if_any("action", record.action);
  line.set_if_any("instead_of", record.instead_of);
  if (record.attempt > 0) {
    line.set("attempt", record.attempt);
  }
  line.set_if_any("policy", record.policy);
  line.set_if_any("policy_digest", record.policy_digest);
  line.set_if_any("text", record.text);
  line.set_if_any("evidence", record.evidence);
  line.set_if_any("server_audit_id", record.server_audit_id);
  if (const auto took = std::chrono::duration_cast<std::chrono::microseconds>(record.took);
      record.took > Duration::zero()) {
    line.set("took_us", static_cast<std::uint64_t>(took.count()));
  }
  line.end();
  return out;
}

Result<void> Trail::write(const Record& record) {
  const WallTime at = clock_.now();
  auto written = sink_.append(record, at, to_json(record, sequence_ + 1, at));
  if (written) {
    ++sequence_;
  } else {
    ++failures_;
  }
  return written;
}

}  // namespace moonfence::audit
