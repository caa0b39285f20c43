#include "fence/act/guarded_call.h"

#include <set>
#include <utility>

#include "base/overloaded.h"
#include "fence/act/replies.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

struct GuardedCall::Item {
  struct Listener {
    std::weak_ptr<const void> alive;  // nobody listens any more when it has expired
    Done done;
  };

  Action action;
  std::vector<Listener> listeners;
  Form form = {};

  void tell(const ActionOutcome& outcome) const {
    for (const Listener& listener : listeners) {
      if (!listener.alive.expired()) {
        listener.done(outcome);
      }
    }
  }
  // Where it stands as a step of its own.
  [[nodiscard]] RecordLedger* ledger(const Authority& authority) const {
    return form.is_step ? authority.ledger.get() : nullptr;
  }
  // Beside a record of it: what keeps it, or what would be said otherwise.
  [[nodiscard]] std::string text(Reason reason, const Authority& authority,
                                 const std::string& otherwise) const {
    const std::string own = refusal_text(action, authority, reason);
    return own.empty() ? otherwise : own;
  }
};

struct GuardedCall::Call {
  std::shared_ptr<const Authority> authority;
  std::vector<Item> items = {};  // one, but for releases
  Moment started{};
  std::optional<Reason> stopped = std::nullopt;  // at the wire
  Brake::Place place = {};  // the node is being fenced for as long as its last call is under way
  kube::CallHandle handle = nullptr;
};

GuardedCall::GuardedCall(loop::Loop& loop, kube::Destroyer destroyer, audit::Trail& trail,
                         std::function<void()> deposed, cluster::Endpoints* endpoints)
    : loop_(loop),
      destroyer_(std::move(destroyer)),
      trail_(trail),
      deposed_(std::move(deposed)),
      endpoints_(endpoints) {}

GuardedCall::~GuardedCall() = default;

void GuardedCall::perform(Action action, std::shared_ptr<const Authority> authority,
                          std::weak_ptr<const void> listener, Done done) {
  std::vector<Item> items;
  items.push_back({.action = std::move(action),
                   .listeners = {{.alive = std::move(listener), .done = std::move(done)}}});
  start(std::move(items), std::move(authority));
}

void GuardedCall::perform(std::vector<ReleaseVolume> volumes,
                          std::shared_ptr<const Authority> authority,
                          const std::weak_ptr<const void>& listener, const Released& done) {
  std::vector<Item> items;
  for (ReleaseVolume& volume : volumes) {
    const auto ended = [volume, done](const ActionOutcome& outcome) { done(volume, outcome); };
    items.push_back(
        {.action = std::move(volume), .listeners = {{.alive = listener, .done = ended}}});
  }
  start(std::move(items), std::move(authority));
}

void GuardedCall::start(std::vector<Item> items, std::shared_ptr<const Authority> authority) {
  Call call = {.authority = std::move(authority), .started = loop_.now()};
  for (Item& item : items) {
    item.form = form_of(item.action, *call.authority);
    if (!join(item, call.authority) && may_begin(item, *call.authority)) {
      call.items.push_back(std::move(item));
    }
  }
  if (call.items.empty()) {
    return;
  }
  if (call.items.front().form.fences) {
    const Brake::Candidate candidate = {.node = call.authority->node, .zone = call.authority->zone};
    call.place = call.authority->brake->begin(candidate);
    call.authority->brake->acted(candidate, loop_.now());
  }
  const auto started = calls_.insert(calls_.end(), std::move(call));
  for (const Item& item : started->items) {
    if (RecordLedger* ledger = item.ledger(*started->authority)) {
      ledger->sent(item.form.subject);
    }
  }
  started->handle = send(started);
}

// A pass that began after another one was cancelled asks for what that one has sent.
bool GuardedCall::join(Item& item, const std::shared_ptr<const Authority>& authority) {
  for (Call& call : calls_) {
    for (Item& other : call.items) {
      if (call.authority == authority && other.form.told.action == item.form.told.action &&
          other.form.subject == item.form.subject) {
        other.listeners.push_back(std::move(item.listeners.front()));
        return true;
      }
    }
  }
  return false;
}

bool GuardedCall::may_begin(const Item& item, const Authority& authority) {
  std::optional<Reason> reason = refuse(item.action, authority, loop_.now());
  Record record = item.form.told;
  record.text = item.form.why;
  if (!reason) {
    record.kind = Record::Kind::Intent;
    record.reason = item.form.intent;
    reason = trail_.write(record) ? std::nullopt : std::optional(Reason::AuditUnwritable);
  }
  if (!reason) {
    return true;
  }
  record.kind = Record::Kind::Refusal;
  record.reason = *reason;
  record.text =
      item.text(*reason, authority, item.form.refused.empty() ? item.form.why : item.form.refused);
  (void)trail_.write(record);
  if (RecordLedger* ledger = item.ledger(authority)) {
    ledger->refused(item.form.subject, *reason);
  }
  item.tell({.reason = *reason,
             .retry_after = std::nullopt,
             .text = reason == Reason::ProofMissing ? record.text : std::string()});
  return false;
}

bool GuardedCall::may_send(Call& call) const {
  for (const Item& item : call.items) {
    const auto reason = refuse(item.action, *call.authority, loop_.live_now());
    call.stopped = reason ? reason : call.stopped;
  }
  return !call.stopped;
}

kube::CallHandle GuardedCall::send(Calls::iterator call) {
  const Authority& authority = *call->authority;
  const Form& form = call->items.front().form;
  const Duration limit = limits_of(authority.leadership).call;
  const auto may_send = [this, call] { return this->may_send(*call); };
  const auto remove = [&] {
    return kube::DeleteRequest{.uid = form.subject, .timeout = limit, .may_send = may_send};
  };
  const auto removed = [this, call](const Result<kube::DeleteReply>& reply) {
    finish(call, reply, reason_of(reply));
  };
  const auto patch = [&](const nlohmann::json& operations, bool of_status = false) {
    return destroyer_.patch_node(
        authority.node,
        {.uid = authority.node_uid,
         .operations = operations,
         .of_status = of_status,
         .timeout = limit,
         .may_send = may_send},
        [this, call, overtaken = form.overtaken](const Result<kube::PatchReply>& reply) {
          finish(call, reply, reason_of(reply, overtaken));
        });
  };
  return std::visit(
      Overloaded{
          [&](const DeletePod& it) { return destroyer_.delete_pod(it.pod.ref, remove(), removed); },
          [&](const FailPod& it) { return fail_pod(it.deletion, limit, may_send, call); },
          [&](const DeleteAttachment& it) {
            return destroyer_.delete_attachment(it.target.attachment.name, remove(), removed);
          },
          [&](const ReleaseVolume&) {
            std::set<std::string> names;
            for (const Item& item : call->items) {
              names.insert(std::get<ReleaseVolume>(item.action).target.name);
            }
            return patch(release_operations(*authority.reading.storage, names), true);
          },
          [&](const SetFencedTaint& it) { return patch(it.operations); },
          [&](const SetOutOfService& it) { return patch(it.operations); },
          [&](const TellFencer& it) -> kube::CallHandle {
            const policy::Request& order = it.target.order.request;
            if (!order.written_kind().empty()) {
              return write_custom(order, limit, may_send, call);
            }
            return endpoints_->post(
                order.endpoint,
                {.path = order.path, .body = order.body, .limit = limit, .may_send = may_send},
                [this, call](const Result<void>& reply) {
                  finish(call,
                         reply ? Result<kube::PatchReply>(kube::PatchReply())
                               : failure(Error(reply.error())),
                         reason_of(reply));
                });
          },
          [&](const SetSilentTaint& it) { return patch(it.operations); },
          [&](const LiftTaints& it) { return patch(it.operations); },
      },
      call->items.front().action);
}

kube::CallHandle GuardedCall::fail_pod(const DeletePod& deletion, Duration limit,
                                       std::function<bool()> may_send, Calls::iterator call) {
  return destroyer_.fail_pod(
      deletion.pod.ref,
      {.uid = deletion.pod.uid,
       .version = deletion.pod.resource_version,
       .now = deletion.wall,
       .message = "moonfence: node " + call->authority->node.text() + " is down, and policy " +
                  deletion.policy + " lets the pod fail before it is deleted",
       .timeout = limit,
       .may_send = std::move(may_send)},
      [this, call](const Result<kube::PatchReply>& reply) {
        finish(call, reply, reason_of_failing(reply));
      });
}

kube::CallHandle GuardedCall::write_custom(const policy::Request& order, Duration limit,
                                           std::function<bool()> may_send, Calls::iterator call) {
  kube::CustomWrite write = {.api_version = order.api_version,
                             .resource = order.resource,
                             .space = order.space,
                             .name = order.name,
                             .uid = Uid(order.uid),
                             .body = order.body,
                             .timeout = limit,
                             .may_send = std::move(may_send)};
  const auto done = [this, call](const Result<kube::CustomWriteReply>& reply) {
    finish(call, reply, reason_of(reply));
  };
  return order.kind == policy::Request::Kind::Create ? destroyer_.create(std::move(write), done)
                                                     : destroyer_.annotate(std::move(write), done);
}

template <class Reply>
void GuardedCall::finish(Calls::iterator call, const Result<Reply>& reply, Reason came_to) {
  // Out of the list first: the listener may start the next action from its callback.
  Calls finished;
  finished.splice(finished.begin(), calls_, call);
  const Call& ended = finished.front();
  const Authority& authority = *ended.authority;
  const bool unsent = !reply && reply.error().kind == Error::Kind::Cancelled && ended.stopped;
  const Reason reason = unsent ? *ended.stopped : came_to;
  for (const Item& item : ended.items) {
    Record record = item.form.told;
    record.kind = unsent ? Record::Kind::Refusal : Record::Kind::Outcome;
    record.reason = reason;
    record.text = item.text(reason, authority, reply ? item.form.done : reply.error().message());
    record.server_audit_id = reply ? reply->audit_id : std::string();
    record.took = loop_.now() - ended.started;
    record.http_status = reply ? reply->http_status : reply.error().http_status;
    record.stopped_at_the_wire = unsent;
    // A failed write is counted by the trail and reported; the action is past being stopped.
    (void)trail_.write(record);
    if (RecordLedger* ledger = item.ledger(authority)) {
      if (unsent) {
        ledger->stopped_at_the_wire(item.form.subject, reason);
      } else {
        ledger->ended(item.form.subject, reason);
      }
    }
  }
  if (reason == Reason::Deposed) {
    deposed_();
  }
  for (const Item& item : ended.items) {
    item.tell({.reason = reason,
               .retry_after = reply ? std::nullopt : reply.error().retry_after,
               .text = reply ? std::string() : reply.error().message()});
  }
}

}  // namespace moonfence::fence
