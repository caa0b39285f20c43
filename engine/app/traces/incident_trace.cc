#include "app/traces/incident_trace.h"

#include <algorithm>
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

// Opened because the node fell just now; the others were down before we looked.
bool is_fresh(Reason reason) {
  return reason == Reason::NodeNotReady || reason == Reason::NodeUnknown ||
         reason == Reason::ReadyMissing;
}

bool goes_on_elsewhere(Reason reason) {
  return reason == Reason::SteppedDown || reason == Reason::Stopping ||
         reason == Reason::StoreWentBack;
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
                             std::string run, std::size_t most_spans)
    : trace_id_(trace_id_of(opened.incident)),
      root_id_(root_span_id_of(opened.incident)),
      run_(std::move(run)),
      most_spans_(most_spans),
      opened_(opened),
      opened_at_(at),
      fell_(at) {
  taken_over_ = beginning.earlier || opened.kind != Record::Kind::IncidentOpened;
  const Reason why = beginning.earlier ? beginning.earlier->second : opened.reason;
  if (beginning.earlier) {
    fell_ = std::min(fell_, beginning.earlier->first);
  }
  if (is_fresh(why) && beginning.fell) {
    fell_ = std::min(fell_, *beginning.fell);
  }
  if (taken_over_) {  // nothing that the other one told may begin before it
    fell_ = std::chrono::floor<std::chrono::seconds>(fell_);
  } else if (fell_ < at) {
    detect_ = span("detect", opened, fell_, at);
  }
}

void IncidentTrace::hear(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (closed_) {
    return;
  }
  if (detect_) {
    tell(std::move(*std::exchange(detect_, std::nullopt)), ended);
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
      if (calls_.contains(subject)) {  // it was stopped as its bytes were to leave
        return hear_outcome(record, at, ended);
      }
      return tell(span("refusal", record, at, at), ended);
    }
    case Record::Kind::Intent:
      goes_on(at, ended);
      end_verdicts(record, at, ended);
      calls_.insert_or_assign({record.action, record.pod_uid, record.attachment},
                              Open{.since = at, .record = record});
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
    return tell(span("verdict", record, at, at), ended);  // beside the policy's own
  }
  const std::pair key(record.pod_uid, record.policy_digest);
  if (const auto known = verdicts_.extract(key)) {
    tell(span("verdict", known.mapped().record, known.mapped().since, at), ended);
  }
  // What waits is bounded as what was told is.
  if (is_pending(record.reason) && made_ + verdicts_.size() < most_spans_) {
    verdicts_.emplace(key, Open{.since = at, .record = record});
  } else {
    tell(span("verdict", record, at, at), ended);
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
  if (made_ + waits_.size() < most_spans_) {
    waits_.emplace(subject, Open{.since = at, .record = record});
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
    const bool is_deletion = record.action == "delete_pod" &&
                             record.kind == Record::Kind::Outcome &&
                             (record.reason == Reason::Done || record.reason == Reason::MarkedOnly);
    deleted_ += is_deletion ? 1 : 0;
    return tell(std::move(told), ended);
  }
  const WallTime start = at - std::max(record.took, Duration::zero());
  tell(span(record.reason == Reason::Detached ? "detached" : "outcome", record, start, at), ended);
}

void IncidentTrace::hear_replacement(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (record.reason == Reason::ReplacementReady) {
    end_wait({"", record.pod_uid, "replacement"}, at, ended);
    tell(span("replaced", record, at - std::max(record.took, Duration::zero()), at), ended);
    return;
  }
  // What keeps it, for as long as that is so.
  Record wait = record;
  wait.attachment = "replacement";
  hear_held(wait, at, ended);
}

void IncidentTrace::close(const Record& record, WallTime at, std::vector<Span>& ended) {
  while (!verdicts_.empty()) {
    const auto open = verdicts_.extract(verdicts_.begin());
    tell(span("verdict", open.mapped().record, open.mapped().since, at), ended);
  }
  while (!waits_.empty()) {
    end_wait(waits_.begin()->first, at, ended);
  }
  // Nobody will hear their answers.
  left_out_ += calls_.size();
  calls_.clear();
  closed_ = true;
  if (goes_on_elsewhere(record.reason)) {
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
  ended.push_back(std::move(root));
}

// The node itself waits no more: something was decided.
void IncidentTrace::goes_on(WallTime at, std::vector<Span>& ended) {
  if (!std::exchange(confirmed_, true)) {
    tell(span("confirm", opened_, opened_at_, at), ended);
  }
  end_wait({}, at, ended);
}

void IncidentTrace::end_verdicts(const Record& record, WallTime at, std::vector<Span>& ended) {
  if (const auto open = verdicts_.extract({record.pod_uid, record.policy_digest})) {
    tell(span("verdict", open.mapped().record, open.mapped().since, at), ended);
  }
}

void IncidentTrace::end_wait(const Subject& subject, WallTime at, std::vector<Span>& ended) {
  if (const auto open = waits_.extract(subject)) {
    Record record = open.mapped().record;
    if (record.kind == Record::Kind::Replacement) {
      record.attachment.clear();
    }
    tell(span("wait", record, open.mapped().since, at), ended);
  }
}

Span IncidentTrace::span(std::string name, const Record& record, WallTime start, WallTime end) {
  Span span;
  span.trace_id = trace_id_;
  span.parent_id = root_id_;
  span.id =
      first_bytes(run_ + " " + opened_.incident.text() + " " + std::to_string(++numbered_), 8);
  span.name = std::move(name);
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

void IncidentTrace::tell(Span span, std::vector<Span>& ended) {
  if (has_room()) {
    ended.push_back(std::move(span));
  }
}

}  // namespace moonfence::app
