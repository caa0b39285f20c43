#include "fence/remediation/remediations.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// No time takes these away, so the incident ends and the pod stays.
bool is_final_refusal(Reason reason) {
  return reason == Reason::ProtectedNamespace || reason == Reason::OwnNode;
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
          [this](const nlohmann::json& object) { wrote(object); }) {}

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
  under_way_.clear();
  asked_.clear();
  problem_.clear();
}

// A watch of what is not there would be tried for ever.
void Remediations::probe() {
  kube::ApiRequest request;
  request.path = remediation_target().path;
  request.query = {{"limit", "1"}};
  request.lane = port::Lane::Bulk;
  request.timeout = StatusWriter::kTimeout;
  probe_call_ =
      around_.caller.call(std::move(request), [this](const auto& reply) { probed(reply); });
}

void Remediations::probed(const Result<kube::ApiReply>& reply) {
  if (reply) {
    problem_.clear();
    watch_.emplace(around_.loop, around_.caller, around_.random, around_.log, remediation_target(),
                   *this);
    watch_->start();
    return;
  }
  const Error& error = reply.error();
  const bool missing = error.http_status == 404;  // in no words of the API server's own
  if (!missing && error.kind != Error::Kind::Forbidden) {
    probe_later_ = around_.loop.after(
        probe_backoff_.next(around_.loop.now(), around_.random.unit(), error.retry_after),
        [this] { probe(); });
    return;
  }
  const std::string problem = std::string("remediation: nodeHealthCheck does nothing: ") +
                              (missing ? "the kind MoonfenceRemediation is not installed"
                                       : "moonfence may not read MoonfenceRemediation objects") +
                              "; kubectl apply -k deploy/rights/remediation";
  if (std::exchange(problem_, problem) != problem) {
    around_.log.warning("remediations_unwatched", {{"text", problem}});
  }
  probe_later_ = around_.loop.after(kProbeEvery, [this] { probe(); });
}

std::string Remediations::problem() const {
  if (!problem_.empty()) {
    return problem_;
  }
  const std::string watch = watch_ ? watch_->health().last_error : std::string();
  return watch.empty() ? writer_.problem() : "MoonfenceRemediation objects: " + watch;
}

void Remediations::on_init() {
  incoming_.clear();
}

void Remediations::on_init_apply(const nlohmann::json& object) {
  if (auto object_read = read(object)) {
    incoming_.insert_or_assign(object_read->ref, *object_read);
  }
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
  look_soon();
}

void Remediations::on_apply(const nlohmann::json& object) {
  if (auto object_read = read(object)) {
    Entry entry = entry_of(*std::move(object_read));
    const ObjectRef ref = entry.object.ref;
    const auto known = entries_.find(ref);
    const bool is_news =
        known == entries_.end() || asks_otherwise(known->second.object, entry.object);
    entries_.insert_or_assign(ref, std::move(entry));
    if (is_news) {  // what we have written ourselves is none
      look_soon();
    }
  }
}

void Remediations::on_delete(const nlohmann::json& object) {
  if (const auto object_read = read(object)) {
    entries_.erase(object_read->ref);
    writer_.forget(object_read->ref);
    look_soon();
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
  return entry;
}

// Its Node is remembered also while that could not be written.
void Remediations::renew(Entry& entry, RemediationObject object) {
  if (object.node_uid.empty()) {
    object.node_uid = entry.object.node_uid;
  }
  entry.object = std::move(object);
}

void Remediations::look_soon() {
  if (!look_soon_.pending()) {
    look_soon_ = around_.loop.in_next_turn([this] { look(); });
  }
}

void Remediations::hear(const audit::Record& record) {
  if (leads_ && record.kind == Record::Kind::IncidentOpened) {
    under_way_[record.incident] = {.last = record.incident};
  }
  const auto found = under_way_.find(record.incident);
  if (found == under_way_.end()) {
    return;
  }
  EndedIncidents& now = found->second;
  if (record.kind == Record::Kind::Outcome && is_deletion(record.reason)) {
    now.done = true;
  } else if (record.kind == Record::Kind::Refusal && record.reason == Reason::ModeObserves) {
    now.observed = true;
  } else if (record.kind == Record::Kind::Refusal && is_final_refusal(record.reason)) {
    now.refused = record.reason;
  }
  if (record.kind != Record::Kind::IncidentClosed) {
    return;
  }
  const EndedIncidents last = under_way_.extract(found).mapped();
  for (auto& [ref, entry] : entries_) {
    if (entry.object.node == record.node) {
      EndedIncidents& ended = entry.ended ? *entry.ended : entry.ended.emplace();
      ended.last = last.last;
      ended.unreplaced = record.reason == Reason::Unreplaced;
      ended.settled = ended.unreplaced || record.reason == Reason::Settled;
      ended.done = ended.done || last.done;
      ended.observed = ended.observed || last.observed;
      ended.refused = last.refused ? last.refused : ended.refused;
      look_soon();
    }
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
    facts.asked_in_vain = entry.in_vain;
    facts.joining = entry.joining;
    facts.enforces = !entry.ended || host_.enforces();
  }
  return standing_of(entry.object, facts);
}

void Remediations::look() {
  if (!leads_ || !watch_ || !watch_->health().synced || !host_.is_informed()) {
    return;
  }
  if (entries_.empty()) {
    host_.withdraw_all_but({});
    return;
  }
  Open open = open_incidents();
  std::set<NodeName> asked;
  for (auto& [ref, entry] : entries_) {
    note_node(entry, open);
    const bool is_over = entry.object.leaving || entry.object.is_finished();
    if (!is_over && standing_in(entry, open).asks()) {
      asked.insert(*entry.object.node);
    }
  }
  host_.withdraw_all_but(asked);
  std::erase_if(asked_,
                [this](const auto& each) { return around_.loop.now() - each.second >= kAskEvery; });
  for (auto& [ref, entry] : entries_) {
    if (!entry.object.leaving && !entry.object.is_finished()) {
      ask(entry, open);
    }
  }
  open = open_incidents();
  for (const auto& [ref, entry] : entries_) {
    tell(ref, entry, open);
  }
}

void Remediations::note_node(Entry& entry, const Open& open) {
  const cluster::NodeView* node = entry.object.node ? host_.find(*entry.object.node) : nullptr;
  if (node != nullptr) {
    entry.absent_since.reset();
    if (entry.object.node_uid.empty()) {
      entry.object.node_uid = node->uid;
    }
  } else if (!entry.absent_since) {
    entry.absent_since = around_.loop.now();
  }
  if (!entry.object.node || open.contains(*entry.object.node)) {
    entry.in_vain = false;
    entry.joining = false;
  } else if (node != nullptr && !cluster::is_down(node->readiness)) {
    entry.ended.reset();  // what comes is another outage
    entry.in_vain = false;
  }
}

// Of a node that Kubernetes calls down, of which no incident is open or has settled.
void Remediations::ask(Entry& entry, const Open& open) {
  const RemediationStage stage = standing_in(entry, open).stage;
  if (stage != RemediationStage::Looking && stage != RemediationStage::NoPolicyActs &&
      stage != RemediationStage::NodeIsJoining) {
    return;
  }
  const NodeName& name = *entry.object.node;
  if (host_.find(name) == nullptr || asked_.contains(name)) {
    return;
  }
  asked_.emplace(name, around_.loop.now());
  entry.joining = !host_.ask(name);
  entry.in_vain = true;  // until an incident is seen
}

// Conditions that say this already are not written again.
void Remediations::tell(const ObjectRef& ref, const Entry& entry, const Open& open) {
  if (entry.object.leaving || entry.object.is_finished()) {
    return;
  }
  const auto wanted = conditions_of(standing_in(entry, open));
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
  const bool stands = !differs(entry.object, wanted, &RemediationCondition::status) &&
                      !differs(entry.object, wanted, &RemediationCondition::reason) &&
                      !differs(entry.object, wanted, &RemediationCondition::message);
  if (stands) {
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

}  // namespace moonfence::fence
