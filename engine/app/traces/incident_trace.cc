#include "app/traces/incident_trace.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "app/status/incident_story.h"
#include "base/sha256.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

std::string first_bytes(const std::string& text, std::size_t bytes) {
  return sha256_hex(text).substr(0, bytes * 2);
}

// Of 64 bits.
std::string hexadecimal(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) {
    *digit = kDigits[number & 0xFU];
  }
  return text;
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  for (const char digit : first_bytes(text, 8)) {
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    number = (number << 4U) | static_cast<std::uint64_t>(value);
  }
  return number;
}

// Opened because the node fell just now, and it is known when; the others were down before we
// looked, or only the moment is known at which somebody said so.
bool is_fresh(Reason reason) {
  return reason == Reason::NodeNotReady || reason == Reason::NodeUnknown ||
         reason == Reason::ReadyMissing || reason == Reason::NodeLost;
}

// Spans say nothing of these, and they may be long.
Record without_texts(const Record& record) {
  Record kept = record;
  kept.text = {};
  kept.evidence = {};
  kept.instead_of = {};
  kept.server_audit_id = {};
  return kept;
}

// Something follows a verdict like this: an intent, a refusal, or another one.
bool is_pending(Reason reason) {
  switch (reason) {
    case Reason::PolicyDeletesPod:
    case Reason::PolicyDeletesPodAndAttachments:
    case Reason::PolicyDeletesAttachments:
    case Reason::PolicyWaits:
    case Reason::PolicyHolds:
    case Reason::PolicyHoldsNode:
    case Reason::NeedsUnread:
      return true;
    default:
      return false;
  }
}

Tone tone_of_record(const Record& record) {
  StoryLine line;
  line.kind = record.kind;
  line.reason = record.reason;
  line.action = record.action;
  line.attachment = record.attachment;
  return tone_of(line);
}

void set_if_any(Attributes& attributes, const char* key, const std::string& text) {
  constexpr std::size_t kLongest = 512;  // names of Kubernetes are shorter
  if (!text.empty()) {
    attributes.emplace_back(key, text.substr(0, kLongest));
  }
}

// Of the semantic conventions for HTTP; other actions have no method of their own.
const char* method_of(const std::string& action) {
  if (action == "fail_pod") {
    return "PATCH";
  }
  return action == "delete_pod" || action == "delete_attachment" ? "DELETE" : "";
}

}  // namespace

std::string trace_id_of(const IncidentId& incident) {
  return first_bytes(incident.text(), 16);
}

std::string root_span_id_of(const IncidentId& incident) {
  return first_bytes("root of " + incident.text(), 8);
}

IncidentTrace::IncidentTrace(const Record& opened, WallTime at, const Beginning& beginning,
                             const std::string& run, std::size_t most_spans)
    : trace_id_(trace_id_of(opened.incident)),
      root_id_(root_span_id_of(opened.incident)),
      first_span_id_(number_of(run + " " + opened.incident.text())),
      most_spans_(most_spans),
      opened_(without_texts(opened)),
      opened_at_(at),
      fell_(at) {
  taken_over_ = beginning.earlier || opened.kind != Record::Kind::IncidentOpened;
  Reason why = opened.reason;
  std::optional<WallTime> fell = beginning.fell;
  if (beginning.earlier) {
    why = beginning.earlier->opened_for;
    fell = why == Reason::NodeLost ? beginning.earlier->last_sign : fell;
    fell_ = std::min(fell_, beginning.earlier->opened);
  }
  if (is_fresh(why) && fell && *fell >= fell_ - kLongestDetection) {
    fell_ = std::min(fell_, *fell);
  }
  if (taken_over_) {  // nothing that the other one told may begin before it
    fell_ = std::chrono::floor<std::chrono::seconds>(fell_);
  }
  detected_ = taken_over_ || fell_ == at;
}

void IncidentTrace::hear(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (closed_) {
    return;
  }
  if (!std::exchange(detected_, true)) {
    tell("detect", opened_, fell_, opened_at_, ended);
  }
  switch (record.kind) {
    case Record::Kind::IncidentOpened:
      return;
    case Record::Kind::IncidentHeld:
      return hear_held(record, at, ended);
    case Record::Kind::Verdict:
      return hear_verdict(record, at, ended);
    case Record::Kind::Refusal: {
      end_verdicts(record, at, ended);
      const Subject subject{record.action, record.pod_uid, record.attachment};
      if (record.stopped_at_the_wire && calls_.contains(subject)) {
        return hear_outcome(record, at, ended);
      }
      return tell_common("refusal", record, at, at, ended);
    }
    case Record::Kind::Intent:
      goes_on(at, ended);
      end_verdicts(record, at, ended);
      calls_.insert_or_assign({record.action, record.pod_uid, record.attachment},
                              Open{.since = at, .record = without_texts(record)});
      return;
    case Record::Kind::Outcome:
      return hear_outcome(record, at, ended);
    case Record::Kind::Replacement:
      return hear_replacement(record, at, ended);
    case Record::Kind::IncidentClosed:
      return close(record, at, ended);
  }
}

void IncidentTrace::hear_verdict(const Record& record, WallTime at, std::vector<Span>& ended) {
  goes_on(at, ended);
  if (record.reason == Reason::ShadowDiffers || record.reason == Reason::PolicyConflict) {
    return tell_common("verdict", record, at, at, ended);  // beside the policy's own
  }
  end_verdicts(record, at, ended);
  if (is_pending(record.reason) && may_wait()) {
    verdicts_.emplace(std::pair(record.pod_uid, record.policy_digest),
                      Open{.since = at, .record = without_texts(record)});
  } else {
    tell_common("verdict", record, at, at, ended);
  }
}

// One wait for each subject: another reason ends it, the same one is the same wait.
void IncidentTrace::hear_held(const Record& record, WallTime at, std::vector<Span>& ended) {
  const Subject subject{"", record.pod_uid, record.attachment};
  if (const auto known = waits_.find(subject); known != waits_.end()) {
    if (known->second.record.reason == record.reason) {
      return;
    }
    end_wait(subject, at, ended);
  }
  if (may_wait()) {
    waits_.emplace(subject, Open{.since = at, .record = without_texts(record)});
  } else {
    ++left_out_;
  }
}

void IncidentTrace::hear_outcome(const Record& record, WallTime at, std::vector<Span>& ended) {
  const Subject subject{record.action, record.pod_uid, record.attachment};
  end_wait({"", record.pod_uid, record.attachment}, at, ended);
  const bool is_ours =
      record.reason == Reason::Detached || record.reason == Reason::ReleaseAcknowledged;
  if (const auto call = is_ours ? decltype(calls_)::node_type() : calls_.extract(subject)) {
    const bool is_deletion = record.action == "delete_pod" &&
                             record.kind == Record::Kind::Outcome &&
                             (record.reason == Reason::Done || record.reason == Reason::MarkedOnly);
    deleted_ += is_deletion ? 1 : 0;
    if (!has_room()) {
      return;
    }
    Span told = span(record.action, record, call.mapped().since, at);
    told.kind = Span::Kind::Client;
    set_if_any(told.attributes, "http.request.method", method_of(record.action));
    if (record.http_status != 0) {
      told.attributes.emplace_back("http.response.status_code", std::int64_t{record.http_status});
    }
    if (told.status == Span::Status::Error) {
      told.attributes.emplace_back("error.type", record.http_status >= 400
                                                     ? std::to_string(record.http_status)
                                                     : std::string(code(record.reason)));
    }
    ended.push_back(std::move(told));
    return;
  }
  const WallTime start = at - std::max(record.took, Duration::zero());
  tell(record.reason == Reason::Detached ? "detached" : "outcome", record, start, at, ended);
}

void IncidentTrace::hear_replacement(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (record.reason == Reason::ReplacementReady) {
    end_wait({"", record.pod_uid, "replacement"}, at, ended);
    tell("replaced", record, at - std::max(record.took, Duration::zero()), at, ended);
    return;
  }
  if (record.reason == Reason::ReplacementNotNeeded) {  // nobody waits for it any more
    return end_wait({"", record.pod_uid, "replacement"}, at, ended);
  }
  // What keeps it, for as long as that is so.
  Record wait = without_texts(record);
  wait.attachment = "replacement";
  hear_held(wait, at, ended);
}

void IncidentTrace::close(const Record& record, WallTime at, std::vector<Span>& ended) {
  while (!verdicts_.empty()) {
    const auto open = verdicts_.extract(verdicts_.begin());
    tell_common("verdict", open.mapped().record, open.mapped().since, at, ended);
  }
  while (!waits_.empty()) {
    end_wait(waits_.begin()->first, at, ended);
  }
  // Nobody will hear their answers.
  left_out_ += calls_.size();
  calls_.clear();
  closed_ = true;
  if (record.goes_on && record.reason != Reason::StoreWentBack) {
    return;
  }
  if (taken_over_) {
    fell_ = std::min(fell_, at - std::max(record.took, Duration::zero()));
  }
  Span root = span("incident", record, fell_, at);
  root.id = root_id_;
  root.parent_id.clear();
  const Tone tone = tone_of_record(record);
  root.status =
      tone == Tone::Warning || tone == Tone::Alarm ? Span::Status::Error : Span::Status::Unset;
  if (opened_.kind == Record::Kind::IncidentOpened) {
    root.attributes.emplace_back("moonfence.incident.opened_for",
                                 std::string(code(opened_.reason)));
  }
  root.attributes.emplace_back("moonfence.incident.taken_over", taken_over_);
  root.attributes.emplace_back("moonfence.pods.deleted", deleted_);
  root.attributes.emplace_back("moonfence.spans.left_out", static_cast<std::int64_t>(left_out_));
  if (record.goes_on) {
    root_ = std::move(root);
  } else {
    ended.push_back(std::move(root));
  }
}

// The node itself waits no more: something was decided.
void IncidentTrace::goes_on(WallTime at, std::vector<Span>& ended) {
  if (!std::exchange(confirmed_, true)) {
    tell("confirm", opened_, opened_at_, at, ended);
  }
  end_wait({}, at, ended);
}

void IncidentTrace::end_verdicts(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (const auto open = verdicts_.extract({record.pod_uid, record.policy_digest})) {
    tell_common("verdict", open.mapped().record, open.mapped().since, at, ended);
  }
}

void IncidentTrace::end_wait(const Subject& subject, WallTime at, std::vector<Span>& ended) {
  if (const auto open = waits_.extract(subject)) {
    Record record = open.mapped().record;
    if (record.kind == Record::Kind::Replacement) {
      record.attachment.clear();
    }
    tell_common("wait", record, open.mapped().since, at, ended);
  }
}

Span IncidentTrace::span(const std::string& name, const Record& record, WallTime start,
                         WallTime end) {
  Span span;
  span.trace_id = trace_id_;
  span.parent_id = root_id_;
  span.id = hexadecimal(first_span_id_ + ++numbered_);
  span.name = name;
  // A clock that was set back makes no negative time, and nothing begins before its incident.
  span.start = std::clamp(start, std::min(fell_, end), end);
  span.end = end;
  span.status = tone_of_record(record) == Tone::Alarm ? Span::Status::Error : Span::Status::Unset;
  Attributes& told = span.attributes;
  told.emplace_back("moonfence.incident.id", opened_.incident.text());
  told.emplace_back("moonfence.reason", std::string(code(record.reason)));
  set_if_any(told, "k8s.node.name", record.node.text());
  set_if_any(told, "k8s.node.uid", record.node_uid.text());
  if (record.pod) {
    set_if_any(told, "k8s.namespace.name", record.pod->space.text());
    set_if_any(told, "k8s.pod.name", record.pod->name);
  }
  set_if_any(told, "k8s.pod.uid", record.pod_uid.text());
  set_if_any(told, "moonfence.attachment", record.attachment);
  set_if_any(told, "moonfence.action", record.action);
  set_if_any(told, "moonfence.policy", record.policy);
  if (record.attempt > 0) {
    told.emplace_back("moonfence.attempt", std::int64_t{record.attempt});
  }
  return span;
}

bool IncidentTrace::has_room() {
  if (made_ >= most_spans_) {
    ++left_out_;
    return false;
  }
  ++made_;
  return true;
}

bool IncidentTrace::has_common_room() {
  if (common_ >= most_spans_ / 2) {
    ++left_out_;
    return false;
  }
  if (!has_room()) {
    return false;
  }
  ++common_;
  return true;
}

// What is still open is bounded as what was told is.
bool IncidentTrace::may_wait() const {
  return common_ + verdicts_.size() + waits_.size() < most_spans_ / 2;
}

void IncidentTrace::tell_common(const char* name, const Record& record, WallTime start,
                                WallTime end, Ended& ended) {
  if (has_common_room()) {
    ended.push_back(span(name, record, start, end));
  }
}

void IncidentTrace::tell(const char* name, const Record& record, WallTime start, WallTime end,
                         Ended& ended) {
  if (has_room()) {
    ended.push_back(span(name, record, start, end));
  }
}

}  // namespace moonfence::app
