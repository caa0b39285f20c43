#include "fence/record/incident_record.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"
#include "policy/values/evidence.h"

namespace moonfence::fence {

using audit::Reason;
using kube::Fields;
using nlohmann::json;

namespace {

// More than fit into a ConfigMap.
constexpr std::size_t kMostSteps = 10'000;

// A required time.
WallTime moment(Fields& fields, Fields::Path path) {
  const auto time = fields.time(path);
  if (!time) {
    fields.refuse(path, "is required");
  }
  return time.value_or(WallTime{});
}

std::optional<Reason> reason(Fields& fields, Fields::Path path) {
  const std::string code = fields.string(path);
  const auto found = audit::find_reason(code);
  if (!code.empty() && !found) {
    fields.refuse(path, "\"" + escaped(code, 64) + "\" is no reason of docs/reasons.md");
  }
  return found;
}

std::string place_of(const char* list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

struct Verdict {
  std::string policy;
  std::string digest;
  std::string set;
  std::string proof;
  std::string evidence;
};

Result<std::vector<Verdict>> parse_policies(const json* list) {
  std::vector<Verdict> out;
  for (const json& item : list == nullptr ? json::array() : *list) {
    Fields fields(item, place_of("policies", out.size()));
    out.push_back({.policy = fields.required({"name"}),
                   .digest = fields.string({"digest"}),
                   .set = fields.string({"set"}),
                   .proof = fields.string({"proof"}),
                   .evidence = fields.string({"evidence"})});
    if (!policy::parse_demands(out.back().proof)) {
      fields.refuse({"proof"}, "is not a list of evidence");
    }
    if (fields.fault()) {
      return failure(*fields.fault());
    }
  }
  return out;
}

void parse_pod(Fields& fields, IncidentRecord::Step& step) {
  step.pod = {.space = Namespace(fields.required({"pod", "namespace"})),
              .name = fields.required({"pod", "name"})};
  step.pod_uid = Uid(fields.required({"pod", "uid"}));
  step.controller = fields.string({"pod", "controller"});
  step.phase = fields.string({"pod", "phase"});
  step.owner_api = fields.string({"pod", "owner_api"});
  step.owner = fields.string({"pod", "owner"});
  step.owner_uid = Uid(fields.string({"pod", "owner_uid"}));
}

void parse_attachment(Fields& fields, IncidentRecord::Step& step) {
  step.kind = IncidentRecord::Step::Kind::DeleteAttachment;
  step.attachment = fields.required({"attachment", "name"});
  step.attachment_uid = Uid(fields.required({"attachment", "uid"}));
  step.driver = fields.required({"attachment", "driver"});
  step.handle = fields.string({"attachment", "handle"});  // not all of them have one
  step.volume = fields.string({"attachment", "volume"});
  step.before_pod = fields.boolean({"attachment", "before_pod"});
  if (fields.object({"attachment", "release"}) != nullptr) {
    step.release = {.boot_id = fields.string({"attachment", "release", "boot_id"}),
                    .heartbeat = fields.string({"attachment", "release", "heartbeat"})};
  }
}

void parse_follow(Fields& fields, IncidentRecord::Step& step) {
  if (fields.object({"replacement"}) == nullptr) {
    return;
  }
  const auto state = reason(fields, {"replacement", "state"});
  if (!state) {
    fields.refuse({"replacement", "state"}, "is required");
  }
  step.follow = {.state = state.value_or(Reason::ReplacementAbsent),
                 .text = fields.string({"replacement", "text"}),
                 .node = NodeName(fields.string({"replacement", "node"})),
                 .uid = Uid(fields.string({"replacement", "uid"})),
                 .at = moment(fields, {"replacement", "at"})};
}

Result<IncidentRecord::Step> parse_step(const json& item, std::size_t index,
                                        const std::vector<Verdict>& policies) {
  using Kind = IncidentRecord::Step::Kind;
  Fields fields(item, place_of("steps", index));
  IncidentRecord::Step step;
  const std::string kind = fields.required({"step"});
  if (kind == to_string(Kind::TaintNode)) {
    step.kind = IncidentRecord::Step::Kind::TaintNode;
    step.node_uid = Uid(fields.required({"node", "uid"}));
  } else {
    if (kind == to_string(Kind::DeleteAttachment)) {
      parse_attachment(fields, step);
    } else if (!kind.empty() && kind != to_string(Kind::DeletePod)) {
      fields.refuse({"step"}, "\"" + escaped(kind, 64) + "\" is no step that this version knows");
    }
    parse_pod(fields, step);
    parse_follow(fields, step);
  }
  step.why = fields.string({"why"});
  step.planned = moment(fields, {"planned"});
  step.sent = fields.time({"sent"});
  step.ended = fields.time({"ended"});
  step.gone = fields.time({"gone"});
  step.outcome = reason(fields, {"outcome"});
  const std::int64_t calls = fields.integer({"calls"});
  if (calls < 0 || calls > INT32_MAX) {
    fields.refuse({"calls"}, "expected 0 to 2147483647, found " + std::to_string(calls));
  }
  step.calls = static_cast<std::uint32_t>(calls);
  const std::int64_t policy = fields.integer({"policy"}, -1);
  if (policy < 0 || std::cmp_greater_equal(policy, policies.size())) {
    fields.refuse({"policy"}, "expected the index of one of " + std::to_string(policies.size()) +
                                  " policies, found " + std::to_string(policy));
  }
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  const Verdict& verdict = policies[static_cast<std::size_t>(policy)];
  step.policy = verdict.policy;
  step.policy_digest = verdict.digest;
  step.set_digest = verdict.set;
  step.proof = verdict.proof;
  step.evidence = verdict.evidence;
  return step;
}

Result<std::vector<IncidentRecord::Step>> parse_steps(const json* list,
                                                      const std::vector<Verdict>& policies) {
  std::vector<IncidentRecord::Step> out;
  if (list == nullptr) {
    return out;
  }
  if (list->size() > kMostSteps) {
    return failure(Error::Kind::Limit, "steps: has " + std::to_string(list->size()) + " of " +
                                           std::to_string(kMostSteps) + " items");
  }
  for (const json& item : *list) {
    auto step = parse_step(item, out.size(), policies);
    if (!step) {
      return failure(std::move(step.error()));
    }
    out.push_back(*std::move(step));
  }
  return out;
}

void parse_leaders(Fields& fields, IncidentRecord& record) {
  if (const json* leaders = fields.array({"leaders"})) {
    for (const json& item : *leaders) {
      Fields leader(item, place_of("leaders", record.leaders.size()));
      record.leaders.push_back(
          {.identity = leader.required({"identity"}), .since = moment(leader, {"since"})});
      fields.adopt(leader);
    }
  }
}

// Everything but the steps.
Result<IncidentRecord> parse_head(Fields& fields) {
  IncidentRecord record;
  const std::int64_t version = fields.integer({"version"});
  if (version != kRecordVersion) {
    fields.refuse({"version"}, "expected " + std::to_string(kRecordVersion) + ", found " +
                                   std::to_string(version));
  }
  record.id = IncidentId(fields.required({"incident"}));
  record.node = NodeName(fields.required({"node", "name"}));
  record.node_uid = Uid(fields.required({"node", "uid"}));
  record.boot_id = fields.string({"node", "boot_id"});
  record.zone = fields.string({"node", "zone"});
  record.hold = fields.string({"node", "hold"});
  record.source = fields.string({"node", "source"});
  record.fell = fields.boolean({"node", "fell"});
  record.silent = fields.time({"node", "silent"});
  record.last_sign = fields.time({"node", "last_sign"});
  record.opened = moment(fields, {"opened"});
  record.opened_for = reason(fields, {"opened_for"}).value_or(Reason::NodeUnknown);
  parse_leaders(fields, record);
  if (fields.object({"closed"}) != nullptr) {
    const auto why = reason(fields, {"closed", "reason"});
    if (!why) {
      fields.refuse({"closed", "reason"}, "is required");
    }
    record.closed = {.at = moment(fields, {"closed", "at"}),
                     .reason = why.value_or(Reason::Settled)};
  }
  const std::int64_t cut = fields.integer({"steps_cut"});
  if (cut < 0) {
    fields.refuse({"steps_cut"}, "expected 0 or more, found " + std::to_string(cut));
  }
  record.steps_cut = static_cast<std::uint64_t>(std::max<std::int64_t>(cut, 0));
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  return record;
}

constexpr const char* kHint =
    "nothing is done by it; after looking at it, delete the ConfigMap, or run the version of "
    "moonfence "
    "that wrote it";

Result<IncidentRecord> parse_whole(std::string_view text) {
  const auto parsed = kube::parse_json(text);
  if (!parsed) {
    return failure(parsed.error());
  }
  Fields fields(*parsed);
  auto record = parse_head(fields);
  if (!record) {
    return record;
  }
  const json* policies = fields.array({"policies"});
  const json* steps = fields.array({"steps"});
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  auto known = parse_policies(policies);
  if (!known) {
    return failure(std::move(known.error()));
  }
  auto taken = parse_steps(steps, *known);
  if (!taken) {
    return failure(std::move(taken.error()));
  }
  record->steps = *std::move(taken);
  return record;
}

}  // namespace

bool IncidentRecord::Step::settled() const {
  if (outcome == Reason::MarkedOnly) {
    return kind != Kind::DeleteAttachment || gone.has_value();  // an attachment is let go of later
  }
  return gone.has_value() || outcome == Reason::Done || outcome == Reason::AlreadyGone ||
         outcome == Reason::Replaced;
}

bool IncidentRecord::Step::awaits_release() const {
  return kind == Kind::DeleteAttachment && release && sent && settled() &&
         outcome != Reason::Replaced;
}

bool IncidentRecord::Step::awaits_replacement() const {
  const bool over = follow && (follow->state == Reason::ReplacementReady ||
                               follow->state == Reason::ReplacementNotNeeded);
  const bool may_be_gone = settled() || !outcome || outcome == Reason::OutcomeLost;
  // Whose only call was answered so: somebody else deleted it.
  const bool by_another =
      calls < 2 && ended && (outcome == Reason::AlreadyGone || outcome == Reason::Replaced);
  return kind == Kind::DeletePod && sent && may_be_gone && !by_another && !over;
}

const IncidentRecord::Step* IncidentRecord::find(const Uid& uid) const {
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [&uid](const Step& step) { return step.uid() == uid; });
  return found == steps.end() ? nullptr : &*found;
}

IncidentRecord::Step* IncidentRecord::find(const Uid& uid) {
  return const_cast<Step*>(std::as_const(*this).find(uid));
}

std::optional<WallTime> IncidentRecord::acted() const {
  std::optional<WallTime> newest;
  for (const Step& step : steps) {
    if (step.sent) {
      newest = std::max(newest.value_or(*step.sent), *step.sent);
    }
  }
  return newest;
}

Result<IncidentRecord> parse_record(std::string_view text) {
  auto record = parse_whole(text);
  if (!record && record.error().hint.empty()) {
    record.error().hint = kHint;
  }
  return record;
}

std::vector<std::string> outdated(const std::vector<KeptRecord>& records,
                                  const RetentionRules& rules, WallTime now) {
  std::vector<std::string> out;
  std::vector<const KeptRecord*> newest;
  newest.reserve(records.size());
  for (const KeptRecord& record : records) {
    if (record.closed && record.empty) {
      out.push_back(record.name);
    } else {
      newest.push_back(&record);
    }
  }
  std::sort(newest.begin(), newest.end(), [](const KeptRecord* a, const KeptRecord* b) {
    return std::tuple(b->opened, b->name) < std::tuple(a->opened, a->name);
  });
  for (std::size_t rank = 0; rank < newest.size(); ++rank) {
    const KeptRecord& record = *newest[rank];
    if (record.closed && (rank >= rules.count || now - *record.closed > rules.age)) {
      out.push_back(record.name);
    }
  }
  return out;
}

}  // namespace moonfence::fence
