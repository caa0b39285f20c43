#include "fence/node_actions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fence/actions.h"
#include "fence/replies.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;
using nlohmann::json;

struct NodeActions::Call {
  Record told;  // what its records have in common
  Reason meant;
  std::string why;
  json operations;
  std::function<std::optional<Reason>(Moment)> refusal;  // the guard
  Listeners listeners;
  Brake::Place place = {};
  Duration limit;                        // of the call, on both sides of the wire
  std::shared_ptr<Page> page = nullptr;  // where it stands as a step of its own
  std::string remark = {};               // beside its outcome, when it is done
  Moment started{};
  std::optional<Reason> refused_at_the_wire = std::nullopt;
  kube::CallHandle handle = nullptr;
};

namespace {

Record told_of(const NodeName& node, const Uid& uid, const IncidentId& incident,
               const char* action) {
  Record record;
  record.node = node;
  record.node_uid = uid;
  record.incident = incident;
  record.action = action;
  return record;
}

}  // namespace

NodeActions::NodeActions(loop::Loop& loop, kube::Destroyer& destroyer, audit::Trail& trail,
                         const std::function<void()>& deposed)
    : loop_(loop), destroyer_(destroyer), trail_(trail), deposed_(deposed) {}

NodeActions::~NodeActions() = default;

std::size_t NodeActions::in_flight() const {
  return calls_.size();
}

namespace {

// The node is being fenced for as long as this is under way.
Brake::Place take_place(const Authority& authority, Moment now) {
  const Brake::Candidate candidate = {.node = authority.node, .zone = authority.zone};
  Brake::Place place = authority.brake->begin(candidate);
  authority.brake->acted(candidate, now);
  return place;
}

}  // namespace

void NodeActions::set_quarantine(const PodDeletion& waiting, json operations,
                                 const std::shared_ptr<const Authority>& authority,
                                 std::weak_ptr<const void> listener, Done done) {
  Record told = told_of(authority->node, authority->node_uid, waiting.incident, "set_quarantine");
  told.policy = waiting.policy;
  told.policy_digest = waiting.policy_digest;
  told.attempt = waiting.attempt;
  const auto refusal = [authority, waiting](Moment now) {
    const Ground ground = {
        .policy = waiting.policy, .digest = waiting.policy_digest, .set = waiting.set_digest};
    return refuse_quarantine(*authority, ground, waiting.pod, now);
  };
  Brake::Place place;
  if (!refusal(loop_.now())) {
    place = take_place(*authority, loop_.now());
  }
  start({.told = std::move(told),
         .meant = Reason::SetsQuarantine,
         .why = "before the deletion of pod " + waiting.pod.ref.text(),
         .operations = std::move(operations),
         .refusal = refusal,
         .listeners = {{.alive = std::move(listener), .done = std::move(done)}},
         .place = std::move(place),
         .limit = limits_of(authority->leadership).call});
}

void NodeActions::set_out_of_service(const Retirement& retirement, json operations,
                                     const std::shared_ptr<const Authority>& authority,
                                     std::weak_ptr<const void> listener, Done done) {
  Record told =
      told_of(authority->node, authority->node_uid, retirement.incident, "taint_out_of_service");
  told.policy = retirement.policy;
  told.policy_digest = retirement.policy_digest;
  told.attempt = retirement.attempt;
  const auto refusal = [authority, retirement](Moment now) {
    const Ground ground = {.policy = retirement.policy,
                           .digest = retirement.policy_digest,
                           .set = retirement.set_digest};
    return refuse_out_of_service(*authority, ground, *retirement.eviction, now);
  };
  Brake::Place place;
  if (!refusal(loop_.now())) {
    place = take_place(*authority, loop_.now());
  }
  start({.told = std::move(told),
         .meant = Reason::SetsOutOfService,
         .why = retirement.why,
         .operations = std::move(operations),
         .refusal = refusal,
         .listeners = {{.alive = std::move(listener), .done = std::move(done)}},
         .place = std::move(place),
         .limit = limits_of(authority->leadership).call,
         .page = authority->page});
}

void NodeActions::lift_quarantine(std::shared_ptr<const Lift> lift, json operations,
                                  std::weak_ptr<const void> listener, Done done) {
  Record told = told_of(lift->node, lift->node_uid, lift->incident, "lift_quarantine");
  std::string why = lift->why;
  const Duration limit = limits_of(lift->leadership).call;
  const bool lifts = changes_taints(operations);
  start({.told = std::move(told),
         .meant = Reason::LiftsQuarantine,
         .why = std::move(why),
         .operations = std::move(operations),
         .refusal = [lift = std::move(lift)](Moment now) { return refuse_lift(*lift, now); },
         .listeners = {{.alive = std::move(listener), .done = std::move(done)}},
         .limit = limit,
         .remark = lifts ? "" : "somebody else had taken it off; only our mark was removed"});
}

bool NodeActions::join(Call& call) {
  const auto same = std::find_if(calls_.begin(), calls_.end(), [&call](const Call& other) {
    return other.told.incident == call.told.incident && other.told.action == call.told.action &&
           other.told.node_uid == call.told.node_uid;
  });
  if (same == calls_.end()) {
    return false;
  }
  same->listeners.push_back(std::move(call.listeners.front()));
  return true;
}

void NodeActions::start(Call call) {
  if (join(call)) {
    return;
  }
  call.started = loop_.now();
  std::optional<Reason> reason = call.refusal(loop_.now());
  Record record = call.told;
  record.text = call.why;
  if (!reason) {
    record.kind = Record::Kind::Intent;
    record.reason = call.meant;
    reason = trail_.write(record) ? std::nullopt : std::optional(Reason::AuditUnwritable);
  }
  if (reason) {
    record.kind = Record::Kind::Refusal;
    record.reason = *reason;
    (void)trail_.write(record);
    if (call.page != nullptr) {
      call.page->refused(call.told.node_uid, *reason);
    }
    tell(call.listeners, {.reason = *reason, .retry_after = std::nullopt});
    return;
  }
  const auto started = calls_.insert(calls_.end(), std::move(call));
  if (started->page != nullptr) {
    started->page->sent(started->told.node_uid);
  }
  kube::NodePatch patch;
  patch.uid = started->told.node_uid;
  patch.operations = std::exchange(started->operations, json());
  patch.timeout = started->limit;
  patch.may_send = [this, started] {
    started->refused_at_the_wire = started->refusal(loop_.live_now());
    return !started->refused_at_the_wire;
  };
  started->handle = destroyer_.patch_node(
      started->told.node, std::move(patch),
      [this, started](const Result<kube::NodePatchReply>& reply) { finish(started, reply); });
}

void NodeActions::finish(Calls::iterator call, const Result<kube::NodePatchReply>& reply) {
  // Out of the list first: the listener may start the next action from its callback.
  Calls finished;
  finished.splice(finished.begin(), calls_, call);
  const Call& ended = finished.front();
  const bool unsent =
      !reply && reply.error().kind == Error::Kind::Cancelled && ended.refused_at_the_wire;
  const Reason reason = unsent ? *ended.refused_at_the_wire : reason_of(reply, Reason::NodeChanged);
  Record record = ended.told;
  record.kind = unsent ? Record::Kind::Refusal : Record::Kind::Outcome;
  record.reason = reason;
  record.text = reply ? ended.remark : reply.error().message();
  record.server_audit_id = reply ? reply->audit_id : std::string();
  record.took = loop_.now() - ended.started;
  (void)trail_.write(record);
  if (ended.page != nullptr && unsent) {
    ended.page->stopped_at_the_wire(record.node_uid, reason);
  } else if (ended.page != nullptr) {
    ended.page->ended(record.node_uid, reason);
  }
  if (reason == Reason::Deposed) {
    deposed_();
  }
  tell(ended.listeners, {.reason = reason,
                         .retry_after = reply ? std::nullopt : reply.error().retry_after,
                         .text = record.text});
}

}  // namespace moonfence::fence
