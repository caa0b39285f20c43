#include "fence/actions.h"

#include <utility>

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

struct GuardedActions::Call {
  PodDeletion deletion;
  std::shared_ptr<const Authority> authority;
  std::weak_ptr<const void> listener;
  Done done;
  Moment started{};
  std::optional<Reason> refused_at_the_wire;
  Brake::Place place;  // the node is being fenced for as long as its last deletion is under way
  kube::CallHandle handle;
};

namespace {

Ground ground_of(const PodDeletion& deletion) {
  return {.policy = deletion.policy, .digest = deletion.policy_digest, .set = deletion.set_digest};
}

Reason reason_of(const Result<kube::DeleteReply>& reply) {
  if (reply) {
    return reply->marked_only ? Reason::MarkedOnly : Reason::Done;
  }
  switch (reply.error().kind) {
    case Error::Kind::NotFound:
      return Reason::AlreadyGone;
    case Error::Kind::Conflict:
      // The precondition's own word. An admission webhook may answer 409 for reasons of its own.
      return reply.error().reason == "Conflict" ? Reason::Replaced : Reason::Refused;
    case Error::Kind::Unknown:
      return Reason::OutcomeLost;
    case Error::Kind::Forbidden:
    case Error::Kind::Invalid:
    case Error::Kind::Malformed:
      return Reason::Refused;
    case Error::Kind::Retryable:
    case Error::Kind::Gone:
    case Error::Kind::Unauthorized:
    case Error::Kind::Limit:
    case Error::Kind::Cancelled:
      return Reason::Retryable;
  }
  return Reason::Retryable;
}

}  // namespace

bool ActionOutcome::settled() const {
  return reason == Reason::Done || reason == Reason::MarkedOnly || reason == Reason::AlreadyGone ||
         reason == Reason::Replaced;
}

GuardedActions::GuardedActions(loop::Loop& loop, kube::Destroyer destroyer, audit::Trail& trail)
    : loop_(loop), destroyer_(destroyer), trail_(trail) {}

GuardedActions::~GuardedActions() = default;

std::size_t GuardedActions::in_flight() const {
  return calls_.size();
}

void GuardedActions::delete_pod(PodDeletion deletion, std::shared_ptr<const Authority> authority,
                                std::weak_ptr<const void> listener, Done done) {
  if (const auto reason =
          refuse_pod_deletion(*authority, ground_of(deletion), deletion.pod, loop_.now())) {
    record(Record::Kind::Refusal, deletion, *authority, *reason, deletion.why, {}, {});
    done({.reason = *reason, .retry_after = std::nullopt});
    return;
  }
  Record intent = {.kind = Record::Kind::Intent,
                   .reason = Reason::PolicyDeletesPod,
                   .incident = deletion.incident,
                   .node = authority->node,
                   .node_uid = authority->node_uid,
                   .pod = deletion.pod.ref,
                   .pod_uid = deletion.pod.uid,
                   .policy = deletion.policy,
                   .policy_digest = deletion.policy_digest,
                   .action = "delete_pod",
                   .text = deletion.why,
                   .attempt = deletion.attempt,
                   .server_audit_id = {},
                   .took = {}};
  if (!trail_.write(intent)) {
    record(Record::Kind::Refusal, deletion, *authority, Reason::AuditUnwritable, deletion.why, {},
           {});
    done({.reason = Reason::AuditUnwritable, .retry_after = std::nullopt});
    return;
  }
  const Brake::Candidate candidate = {.node = authority->node, .zone = authority->zone};
  Brake::Place place = authority->brake->begin(candidate);
  authority->brake->acted(candidate, loop_.now());
  const auto call = calls_.insert(calls_.end(), Call{.deletion = std::move(deletion),
                                                     .authority = std::move(authority),
                                                     .listener = std::move(listener),
                                                     .done = std::move(done),
                                                     .started = loop_.now(),
                                                     .refused_at_the_wire = std::nullopt,
                                                     .place = std::move(place),
                                                     .handle = nullptr});
  kube::DeleteRequest request;
  request.uid = call->deletion.pod.uid;
  request.timeout = kCallTimeout;
  request.may_send = [this, call] {
    call->refused_at_the_wire = refuse_pod_deletion(*call->authority, ground_of(call->deletion),
                                                    call->deletion.pod, loop_.live_now());
    return !call->refused_at_the_wire;
  };
  call->handle = destroyer_.delete_pod(
      call->deletion.pod.ref, std::move(request),
      [this, call](const Result<kube::DeleteReply>& reply) { finish(call, reply); });
}

void GuardedActions::finish(Calls::iterator call, const Result<kube::DeleteReply>& reply) {
  // Out of the list first: the listener may start the next action from its callback.
  Calls finished;
  finished.splice(finished.begin(), calls_, call);
  const Call& ended = finished.front();
  const bool unsent = !reply && reply.error().kind == Error::Kind::Cancelled;
  const Reason reason =
      unsent && ended.refused_at_the_wire ? *ended.refused_at_the_wire : reason_of(reply);
  record(unsent && ended.refused_at_the_wire ? Record::Kind::Refusal : Record::Kind::Outcome,
         ended.deletion, *ended.authority, reason, reply ? std::string() : reply.error().message(),
         reply ? reply->audit_id : std::string(), loop_.now() - ended.started);
  if (!ended.listener.expired()) {
    ended.done({.reason = reason, .retry_after = reply ? std::nullopt : reply.error().retry_after});
  }
}

void GuardedActions::record(Record::Kind kind, const PodDeletion& deletion,
                            const Authority& authority, Reason reason, const std::string& text,
                            const std::string& server_audit_id, Duration took) {
  // A failed write is counted by the trail and reported; the action is past being stopped.
  (void)trail_.write({.kind = kind,
                      .reason = reason,
                      .incident = deletion.incident,
                      .node = authority.node,
                      .node_uid = authority.node_uid,
                      .pod = deletion.pod.ref,
                      .pod_uid = deletion.pod.uid,
                      .policy = deletion.policy,
                      .policy_digest = deletion.policy_digest,
                      .action = "delete_pod",
                      .text = text,
                      .attempt = deletion.attempt,
                      .server_audit_id = server_audit_id,
                      .took = took});
}

}  // namespace moonfence::fence
