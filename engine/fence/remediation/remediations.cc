#include "fence/remediation/remediations.h"

#include <algorithm>
#include <utility>

#include "fence/rules/action.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// No time takes these away, so the incident ends and the pod or its attachment stays.
bool is_final_refusal(Reason reason) {
  return is_hopeless(reason) || reason == Reason::OwnNode;
}

bool is_deletion(Reason reason) {
  return reason == Reason::Done || reason == Reason::MarkedOnly || reason == Reason::AlreadyGone ||
         reason == Reason::Replaced;
}

// What is said of it differs in this.
bool differs(const RemediationObject& object, const std::vector<RemediationCondition>& wanted,
             std::string RemediationCondition::*part) {
  return std::any_of(wanted.begin(), wanted.end(), [&object, part](const auto& each) {
    const auto found = object.conditions.find(each.type);
    return found == object.conditions.end() || found->second.*part != each.*part;
  });
}

bool differs(const RemediationObject& object, const std::vector<RemediationCondition>& wanted) {
  return differs(object, wanted, &RemediationCondition::status) ||
         differs(object, wanted, &RemediationCondition::reason) ||
         differs(object, wanted, &RemediationCondition::message);
}

bool asks_otherwise(const RemediationObject& before, const RemediationObject& after) {
  return before.uid != after.uid || before.node != after.node ||
         before.timed_out != after.timed_out || before.leaving != after.leaving;
}

}  // namespace

Remediations::Remediations(const StatusWriter::Surroundings& around, Host& host)
    : around_(around),
      host_(host),
      writer_(
          around_, [this](const nlohmann::json& live) { return patch_of(live); },
          [this](const nlohmann::json& object) { wrote(object); },
          [this](const ObjectRef& ref, Moment asked) { missed(ref, asked); }) {}

void Remediations::lead() {
  step_down();
  leads_ = true;
  probe();
}

void Remediations::step_down() {
  leads_ = false;
  writer_.stop();
  watch_.reset();
  probe_call_.reset();
  probe_later_.cancel();
  look_soon_.cancel();
  entries_.clear();
  incoming_.clear();
  news_.clear();
  under_way_.clear();
  asked_.clear();
  problem_.clear();
  told_.reset();
  left_out_ = false;
}

// A watch of what is not there would be tried for ever.
void Remediations::probe() {
  kube::ApiRequest request;
  request.path = remediation_target().path;
  request.query = {{"limit", "1"}};
  request.lane = port::Lane::Bulk;
  request.timeout = StatusWriter::kTimeout;
  request.observed = false;  // of a kind that may not be there
  probe_call_ =
      around_.caller.call(std::move(request), [this](const auto& reply) { probed(reply); });
}

void Remediations::probed(const Result<kube::ApiReply>& reply) {
  if (reply) {
    problem_.clear();
    told_.reset();
    watch_.emplace(around_.loop, around_.caller, around_.random, around_.log, remediation_target(),
                   *this);
    watch_->start();
    return;
  }
  const Error& error = reply.error();
  const bool missing = error.http_status == 404;  // in no words of the API server's own
  if (!missing && error.kind != Error::Kind::Forbidden) {
    unwatched(error.kind,
              "remediation: MoonfenceRemediation objects cannot be read: " + error.message());
    probe_later_ = around_.loop.after(
        probe_backoff_.next(around_.loop.now(), around_.random.unit(), error.retry_after),
        [this] { probe(); });
    return;
  }
  unwatched(error.kind, std::string("remediation: nodeHealthCheck does nothing: ") +
                            (missing ? "the kind MoonfenceRemediation is not installed"
                                     : "moonfence may not read MoonfenceRemediation objects") +
                            "; kubectl apply -k deploy/rights/remediation");
  probe_later_ = around_.loop.after(kProbeEvery, [this] { probe(); });
}

void Remediations::unwatched(Error::Kind kind, std::string problem) {
  problem_ = std::move(problem);
  if (std::exchange(told_, kind) != kind) {
    around_.log.warning("remediations_unwatched", {{"text", problem_}});
  }
}

std::string Remediations::problem() const {
  if (!problem_.empty()) {
    return problem_;
  }
  const std::string watch = watch_ ? watch_->health().last_error : std::string();
  std::string text = watch.empty() ? writer_.problem() : "MoonfenceRemediation objects: " + watch;
  if (left_out_) {
    text += std::string(text.empty() ? "" : "; ") + "there are more than " + std::to_string(kMost) +
            " MoonfenceRemediation objects: the rest is left out, and nodes are fenced all the "
            "same; see who makes them: kubectl get moonfenceremediations -A";
  }
  return text;
}

void Remediations::on_init() {
  incoming_.clear();
  unknown_ = 0;
  left_out_ = false;
}

// What is known is kept before what is new.
void Remediations::on_init_apply(const nlohmann::json& object) {
  auto object_read = read(object);
  if (!object_read) {
    return;
  }
  const ObjectRef ref = object_read->ref;
  const bool is_new = !entries_.contains(ref) && !incoming_.contains(ref);
  if (is_new && entries_.size() + unknown_ >= kMost) {
    left_out_ = true;
    return;
  }
  unknown_ += is_new ? 1 : 0;
  incoming_.insert_or_assign(ref, *std::move(object_read));
}

void Remediations::on_init_done() {
  std::map<ObjectRef, Entry> fresh;
  for (auto& [ref, object] : std::exchange(incoming_, {})) {
    fresh.emplace(ref, entry_of(object));
  }
  for (const auto& [ref, entry] : entries_) {
    if (!fresh.contains(ref)) {
      writer_.forget(ref);
    }
  }
  entries_ = std::move(fresh);
  listed_ = around_.loop.now();
}

void Remediations::on_apply(const nlohmann::json& object) {
  if (auto object_read = read(object)) {
    Entry entry = entry_of(*std::move(object_read));
    const ObjectRef ref = entry.object.ref;
    const auto known = entries_.find(ref);
    if (known == entries_.end() && entries_.size() >= kMost) {
      left_out_ = true;
      return;
    }
    const bool is_news =
        known == entries_.end() || asks_otherwise(known->second.object, entry.object);
    entries_.insert_or_assign(ref, std::move(entry));
    if (is_news) {  // what we have written ourselves is none
      look_soon(ref);
    }
  }
}

void Remediations::on_delete(const nlohmann::json& object) {
  if (const auto object_read = read(object)) {
    entries_.erase(object_read->ref);
    writer_.forget(object_read->ref);
  }
}

std::optional<RemediationObject> Remediations::read(const nlohmann::json& object) {
  auto decoded = decode_remediation(object);
  if (!decoded) {
    around_.log.error("remediation_undecodable", {{"error", decoded.error().message()}});
    return std::nullopt;
  }
  return *std::move(decoded);
}

// What we know of the same object goes on.
Remediations::Entry Remediations::entry_of(RemediationObject object) const {
  const auto known = entries_.find(object.ref);
  Entry entry =
      known != entries_.end() && known->second.object.uid == object.uid ? known->second : Entry{};
  renew(entry, std::move(object));
  entry.heard = around_.loop.now();
  return entry;
}

// Its Node is remembered also while that could not be written.
void Remediations::renew(Entry& entry, RemediationObject object) {
  if (object.node_uid.empty()) {
    object.node_uid = entry.object.node_uid;
  }
  entry.object = std::move(object);
}

void Remediations::look_soon(const ObjectRef& ref) {
  news_.insert(ref);
  if (!look_soon_.pending()) {
    look_soon_ = around_.loop.in_next_turn([this] { look_at_news(); });
  }
}

void Remediations::hear(const Record& record) {
  if (leads_ && record.kind == Record::Kind::IncidentOpened &&
      host_.incident_of(record.node) == record.incident) {
    under_way_[record.incident] = {};
    if (const auto asked = asked_.find(record.node); asked != asked_.end()) {
      asked->second.in_vain = false;
    }
  }
  const auto found = under_way_.find(record.incident);
  if (found == under_way_.end()) {
    return;
  }
  note(found->second, record);
  if (record.kind == Record::Kind::IncidentClosed) {
    ended(under_way_.extract(found).mapped(), record);
  }
}

void Remediations::note(UnderWay& incident, const Record& record) {
  const Uid& about = record.attachment_uid.empty() ? record.pod_uid : record.attachment_uid;
  if (record.kind == Record::Kind::Outcome && record.action != "fail_pod" &&
      is_deletion(record.reason)) {
    incident.done = true;
    incident.kept.erase(about);
    incident.deleted.insert(about);
  } else if (record.kind == Record::Kind::Refusal && !incident.deleted.contains(about) &&
             (record.reason == Reason::ModeObserves || is_final_refusal(record.reason))) {
    incident.kept.insert_or_assign(about, Kept{.reason = record.reason, .pod = record.pod});
  }
}

void Remediations::ended(const UnderWay& incident, const Record& record) {
  for (auto& [ref, entry] : entries_) {
    if (entry.object.node != record.node) {
      continue;
    }
    EndedIncidents& known = entry.ended ? *entry.ended : entry.ended.emplace();
    known.last = record.incident;
    known.unreplaced = record.reason == Reason::Unreplaced;
    known.settled = known.unreplaced || record.reason == Reason::Settled;
    known.done = known.done || incident.done;
    known.observed.reset();
    known.refused.reset();
    for (const auto& [about, kept] : incident.kept) {
      (kept.reason == Reason::ModeObserves ? known.observed : known.refused) = kept;
    }
    look_soon(ref);
  }
}

Remediations::Open Remediations::open_incidents() const {
  Open open;
  for (IncidentStatus& each : host_.incidents()) {
    open.try_emplace(each.node, each);
  }
  return open;
}

RemediationStanding Remediations::standing_in(const Entry& entry, const Open& open) const {
  NodeFacts facts;
  if (const auto& name = entry.object.node) {
    const auto incident = open.find(*name);
    facts.node = host_.find(*name);
    facts.open = incident == open.end() ? nullptr : &incident->second;
    facts.absent_for_long =
        entry.absent_since && around_.loop.now() - *entry.absent_since >= kAbsence;
    facts.ended = entry.ended ? &*entry.ended : nullptr;
    if (const auto asked = asked_.find(*name); asked != asked_.end()) {
      facts.asked_in_vain = asked->second.in_vain;
      facts.joining = asked->second.joining;
    }
  }
  return standing_of(entry.object, facts);
}

bool Remediations::may_judge() const {
  return leads_ && watch_ && watch_->health().synced && host_.is_informed();
}

bool Remediations::is_current() const {
  return around_.loop.now() - std::max(watch_->health().whole_at, listed_) <= kStale;
}

// Of all.
void Remediations::look() {
  if (!may_judge()) {
    return;
  }
  if (left_out_ && entries_.size() <= kMost / 2) {
    left_out_ = false;
    watch_->list_anew();  // there is room for the rest
  }
  const Open open = open_incidents();
  std::set<NodeName> asked;
  for (auto& [ref, entry] : entries_) {
    if (entry.object.leaving || entry.object.is_finished()) {
      continue;
    }
    note_node(entry, open);
    if (standing_in(entry, open).asks()) {
      asked.insert(*entry.object.node);
    }
  }
  if (is_current()) {
    host_.withdraw_all_but(asked);
  }
  std::erase_if(asked_, [this, &asked](const auto& each) {
    return !asked.contains(each.first) && around_.loop.now() - each.second.at >= kAskEvery;
  });
  for (const auto& [ref, entry] : entries_) {
    ask(entry, open);
  }
  const Open now = open_incidents();
  for (const auto& [ref, entry] : entries_) {
    tell(ref, entry, now);
  }
}

// Of these only: as many may come as somebody likes to make.
void Remediations::look_at_news() {
  const std::set<ObjectRef> news = std::exchange(news_, {});
  if (!may_judge()) {
    return;
  }
  const Open open = open_incidents();
  for (const ObjectRef& ref : news) {
    if (const auto found = entries_.find(ref); found != entries_.end()) {
      note_node(found->second, open);
      ask(found->second, open);
    }
  }
  const Open now = open_incidents();
  for (const ObjectRef& ref : news) {
    if (const auto found = entries_.find(ref); found != entries_.end()) {
      tell(ref, found->second, now);
    }
  }
}

void Remediations::note_node(Entry& entry, const Open& open) {
  if (!entry.object.node) {
    return;
  }
  const NodeName& name = *entry.object.node;
  const cluster::NodeView* node = host_.find(name);
  if (node != nullptr) {
    entry.absent_since.reset();
    if (entry.object.node_uid.empty()) {
      entry.object.node_uid = node->uid;
    }
  } else if (!entry.absent_since) {
    entry.absent_since = around_.loop.now();
  }
  const bool is_open = open.contains(name);
  const bool is_up = node != nullptr && !cluster::is_down(node->readiness);
  if (!is_open && is_up) {
    entry.ended.reset();  // what comes is another outage
  }
  const auto asked = asked_.find(name);
  if (asked != asked_.end() && (is_open || is_up)) {
    asked->second.in_vain = false;
    asked->second.joining = false;
  }
}

// Of a node that Kubernetes calls down, of which no incident is open or has settled.
void Remediations::ask(const Entry& entry, const Open& open) {
  if (entry.object.leaving || entry.object.is_finished() || !is_current()) {
    return;
  }
  const RemediationStage stage = standing_in(entry, open).stage;
  if (stage != RemediationStage::Looking && stage != RemediationStage::NoPolicyActs &&
      stage != RemediationStage::NodeIsJoining) {
    return;
  }
  const NodeName& name = *entry.object.node;
  const auto before = asked_.find(name);
  const bool lately = before != asked_.end() && around_.loop.now() - before->second.at < kAskEvery;
  if (host_.find(name) == nullptr || lately) {
    return;
  }
  // In vain, until an incident is seen.
  asked_.insert_or_assign(name, Asked{.at = around_.loop.now(), .in_vain = true});
  const bool joining = !host_.ask(name);
  asked_[name].joining = joining;
}

// Conditions that say this already are not written again.
void Remediations::tell(const ObjectRef& ref, const Entry& entry, const Open& open) {
  if (entry.object.leaving || entry.object.is_finished()) {
    writer_.stands(ref);
    return;
  }
  const auto wanted = conditions_of(standing_in(entry, open));
  if (!differs(entry.object, wanted)) {
    writer_.stands(ref);
    return;
  }
  const Duration silent =
      entry.told ? around_.loop.now() - *entry.told : std::max(kReasonEvery, kMessageEvery);
  if (differs(entry.object, wanted, &RemediationCondition::status) ||
      (silent >= kReasonEvery && differs(entry.object, wanted, &RemediationCondition::reason)) ||
      (silent >= kMessageEvery && differs(entry.object, wanted, &RemediationCondition::message))) {
    writer_.want(ref);
  }
}

// Decided again by what stands there now.
std::optional<std::string> Remediations::patch_of(const nlohmann::json& live) {
  auto read = decode_remediation(live);
  const auto found = read ? entries_.find(read->ref) : entries_.end();
  if (found == entries_.end() || found->second.object.uid != read->uid || !host_.is_informed()) {
    return std::nullopt;
  }
  renew(found->second, *std::move(read));
  const Entry& entry = found->second;
  if (entry.object.leaving || entry.object.is_finished()) {
    return std::nullopt;
  }
  const auto wanted = conditions_of(standing_in(entry, open_incidents()));
  if (!differs(entry.object, wanted)) {
    return std::nullopt;
  }
  return status_patch(live, wanted, entry.object.node_uid, host_.now());
}

void Remediations::wrote(const nlohmann::json& object) {
  auto read = decode_remediation(object);
  const auto found = read ? entries_.find(read->ref) : entries_.end();
  if (found != entries_.end() && found->second.object.uid == read->uid) {
    renew(found->second, *std::move(read));
    found->second.told = around_.loop.now();
  }
}

// What was heard since goes by what comes.
void Remediations::missed(const ObjectRef& ref, Moment asked) {
  const auto found = entries_.find(ref);
  if (found != entries_.end() && found->second.heard <= asked) {
    entries_.erase(found);
    writer_.forget(ref);
  }
}

}  // namespace moonfence::fence
