#include "app/telling/records.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

port::Log::Level level_of(const Record& record) {
  switch (record.reason) {
    case Reason::StillFailing:
    case Reason::Refused:
    case Reason::NoUid:
    case Reason::AuditUnwritable:
      return port::Log::Level::Error;
    case Reason::PolicyFailed:
    case Reason::PolicyFailing:
    case Reason::GuardFailed:
    case Reason::GuardBroken:
    case Reason::Deposed:
    case Reason::Retryable:
    case Reason::OutcomeLost:
    case Reason::StillWaiting:
    case Reason::VolumeLeft:
    case Reason::Unreadable:
    case Reason::ServerSlow:
    case Reason::LeaseUnreadable:
    case Reason::KernelAnswers:
    case Reason::ProofMissing:
    case Reason::TooManyDown:
    case Reason::TooManyInWindow:
    case Reason::ZoneDisrupted:
    case Reason::DoubtsItself:
    case Reason::Unreplaced:
      return port::Log::Level::Warning;
    default:
      break;
  }
  // A verdict that leads to anything is followed by an intent or a refusal; the others are the bulk
  // of a node's pods. All are in the audit and in the metrics.
  return record.kind == Record::Kind::Verdict ? port::Log::Level::Debug : port::Log::Level::Info;
}

}  // namespace

Result<void> Records::append(const Record& record, WallTime at, std::string_view json) {
  if (append_line_) {
    if (auto written = append_line_(json); !written) {
      log_.error("audit_write_failed", {{"error", written.error().message()}});
      if (record.kind != Record::Kind::Intent) {
        tell(record, at);
      }
      return written;
    }
  }
  tell(record, at);
  return {};
}

void Records::tell(const Record& record, WallTime at) {
  std::vector<port::LogField> fields = {{"reason", audit::code(record.reason)},
                                        {"incident", record.incident.text()},
                                        {"node", record.node.text()}};
  if (record.pod) {
    fields.emplace_back("pod", record.pod->text());
    fields.emplace_back("uid", record.pod_uid.text());
  }
  for (const auto& [name, value] : {std::pair("attachment", record.attachment),
                                    {"policy", record.policy},
                                    {"action", record.action},
                                    {"instead_of", record.instead_of}}) {
    if (!value.empty()) {
      fields.emplace_back(name, value);
    }
  }
  if (record.attempt > 0) {
    fields.emplace_back("attempt", static_cast<std::int64_t>(record.attempt));
  }
  if (record.took > Duration::zero()) {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(record.took);
    fields.emplace_back("took", format_duration(took));
  }
  if (!record.text.empty()) {
    fields.emplace_back("text", record.text);
  }
  log_.write(level_of(record), audit::to_string(record.kind), fields);
  metrics_.count(record);
  if (announce_) {
    announce_(record, at);
  }
}

}  // namespace moonfence::app
