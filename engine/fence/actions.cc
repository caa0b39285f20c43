#include "fence/actions.h"

#include <algorithm>
#include <utility>

#include "fence/replies.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

struct GuardedActions::Call {
  DeletePod deletion;
  std::optional<AttachmentCase> target;  // absent: the pod itself
  std::shared_ptr<const Authority> authority;
  Listeners listeners;
  Moment started{};
  std::optional<Reason> refused_at_the_wire = std::nullopt;
  Brake::Place place =
      {};  // the node is being fenced for as long as its last deletion is under way
  kube::CallHandle handle = nullptr;
};

namespace {

Ground ground_of(const DeletePod& deletion) {
  return {.policy = deletion.policy,
          .digest = deletion.policy_digest,
          .set = deletion.set_digest,
          .judged = deletion.judged};
}

std::string held_by(const Authority& authority, const kube::Pod& pod) {
  return hold_text(authority.node, authority.reading.hold, pod, authority.namespaces,
                   authority.held_pods);
}

}  // namespace

struct GuardedActions::ReleasePart {
  ReleaseVolume volume;
  Listeners listeners;
};

struct GuardedActions::Release {
  std::vector<ReleasePart> parts;
  std::shared_ptr<const Authority> authority;
  Moment started{};
  std::optional<Reason> refused_at_the_wire = std::nullopt;
  Brake::Place place = {};
  kube::CallHandle handle = nullptr;
};

GuardedActions::GuardedActions(loop::Loop& loop, kube::Destroyer destroyer, audit::Trail& trail,
                               std::function<void()> deposed)
    : loop_(loop),
      destroyer_(std::move(destroyer)),
      trail_(trail),
      deposed_(std::move(deposed)),
      taints_(loop, destroyer_, trail, deposed_) {}

GuardedActions::~GuardedActions() = default;

std::size_t GuardedActions::in_flight() const {
  return calls_.size() + releases_.size() + taints_.in_flight();
}

void GuardedActions::delete_pod(DeletePod deletion, std::shared_ptr<const Authority> authority,
                                std::weak_ptr<const void> listener, Done done) {
  start({.deletion = std::move(deletion),
         .target = std::nullopt,
         .authority = std::move(authority),
         .listeners = {{.alive = std::move(listener), .done = std::move(done)}}});
}

void GuardedActions::delete_attachment(DeleteAttachment deletion,
                                       std::shared_ptr<const Authority> authority,
                                       std::weak_ptr<const void> listener, Done done) {
  start({.deletion = std::move(deletion.verdict),
         .target = std::move(deletion.target),
         .authority = std::move(authority),
         .listeners = {{.alive = std::move(listener), .done = std::move(done)}}});
}

void GuardedActions::perform(Action action, std::shared_ptr<const Authority> authority,
                             std::weak_ptr<const void> listener, Done done) {
  taints_.perform(std::move(action), std::move(authority), std::move(listener), std::move(done));
}

std::optional<Reason> GuardedActions::refusal(const Call& call, Moment now) {
  const Ground ground = ground_of(call.deletion);
  return call.target ? refuse_attachment_deletion(*call.authority, ground, call.deletion.pod,
                                                  *call.target, now)
                     : refuse_pod_deletion(*call.authority, ground, call.deletion.pod, now);
}

const Uid& GuardedActions::uid_of(const Call& call) {
  return call.target ? call.target->attachment.uid : call.deletion.pod.uid;
}

bool GuardedActions::join(Call& call) {
  const auto same = std::find_if(calls_.begin(), calls_.end(), [&call](const Call& other) {
    return other.authority == call.authority && uid_of(other) == uid_of(call);
  });
  if (same == calls_.end()) {
    return false;
  }
  same->listeners.push_back(std::move(call.listeners.front()));
  return true;
}

void GuardedActions::start(Call call) {
  if (join(call)) {
    return;
  }
  call.started = loop_.now();
  std::optional<Reason> reason = refusal(call, loop_.now());
  if (!reason) {
    Record intent = record_of(call, Record::Kind::Intent,
                              !call.target              ? Reason::PolicyDeletesPod
                              : call.target->before_pod ? Reason::PolicyDeletesAttachments
                                                        : Reason::PolicyDeletesPodAndAttachments);
    intent.text = call.deletion.why;
    reason = trail_.write(intent) ? std::nullopt : std::optional(Reason::AuditUnwritable);
  }
  if (reason) {
    Record record = record_of(call, Record::Kind::Refusal, *reason);
    record.text =
        reason == Reason::OnHold ? held_by(*call.authority, call.deletion.pod) : call.deletion.why;
    (void)trail_.write(record);
    if (call.authority->page != nullptr) {
      call.authority->page->refused(uid_of(call), *reason);
    }
    tell(call.listeners, {.reason = *reason, .retry_after = std::nullopt});
    return;
  }
  const Brake::Candidate candidate = {.node = call.authority->node, .zone = call.authority->zone};
  call.place = call.authority->brake->begin(candidate);
  call.authority->brake->acted(candidate, loop_.now());
  const auto started = calls_.insert(calls_.end(), std::move(call));
  kube::DeleteRequest request;
  request.uid = uid_of(*started);
  started->authority->page->sent(request.uid);
  request.timeout = started->authority->leadership->limits().call;
  request.may_send = [this, started] {
    started->refused_at_the_wire = refusal(*started, loop_.live_now());
    return !started->refused_at_the_wire;
  };
  const auto ended = [this, started](const Result<kube::DeleteReply>& reply) {
    finish(started, reply);
  };
  started->handle =
      started->target ? destroyer_.delete_attachment(started->target->attachment.name,
                                                     std::move(request), ended)
                      : destroyer_.delete_pod(started->deletion.pod.ref, std::move(request), ended);
}

void GuardedActions::finish(Calls::iterator call, const Result<kube::DeleteReply>& reply) {
  // Out of the list first: the listener may start the next action from its callback.
  Calls finished;
  finished.splice(finished.begin(), calls_, call);
  const Call& ended = finished.front();
  const bool unsent = !reply && reply.error().kind == Error::Kind::Cancelled;
  const Reason reason =
      unsent && ended.refused_at_the_wire ? *ended.refused_at_the_wire : reason_of(reply);
  Record record = record_of(
      ended, unsent && ended.refused_at_the_wire ? Record::Kind::Refusal : Record::Kind::Outcome,
      reason);
  record.text = reason == Reason::OnHold ? held_by(*ended.authority, ended.deletion.pod)
                : reply                  ? std::string()
                                         : reply.error().message();
  record.server_audit_id = reply ? reply->audit_id : std::string();
  record.took = loop_.now() - ended.started;
  if (record.kind == Record::Kind::Refusal) {
    ended.authority->page->stopped_at_the_wire(uid_of(ended), reason);
  } else {
    ended.authority->page->ended(uid_of(ended), reason);
  }
  // A failed write is counted by the trail and reported; the action is past being stopped.
  (void)trail_.write(record);
  if (reason == Reason::Deposed) {
    deposed_();
  }
  tell(ended.listeners, {.reason = reason,
                         .retry_after = reply ? std::nullopt : reply.error().retry_after,
                         .text = record.text});
}

Record GuardedActions::record_of(const Call& call, Record::Kind kind, Reason reason) {
  const DeletePod& deletion = call.deletion;
  Record record;
  record.kind = kind;
  record.reason = reason;
  record.incident = deletion.incident;
  record.node = call.authority->node;
  record.node_uid = call.authority->node_uid;
  record.pod = deletion.pod.ref;
  record.pod_uid = deletion.pod.uid;
  record.policy = deletion.policy;
  record.policy_digest = deletion.policy_digest;
  record.action = call.target ? "delete_attachment" : "delete_pod";
  record.attempt = deletion.attempt;
  if (call.target) {
    record.attachment = call.target->attachment.name;
    record.attachment_uid = call.target->attachment.uid;
  }
  return record;
}

void GuardedActions::release(std::vector<ReleaseVolume> volumes,
                             const std::shared_ptr<const Authority>& authority,
                             const std::weak_ptr<const void>& listener, const Released& done) {
  Release release = {.parts = {}, .authority = authority, .started = loop_.now()};
  for (ReleaseVolume& volume : volumes) {
    const auto ended = [volume, done](const ActionOutcome& outcome) { done(volume, outcome); };
    ReleasePart part = {.volume = std::move(volume),
                        .listeners = {{.alive = listener, .done = ended}}};
    if (!join(part, authority) && may_begin(part, *authority)) {
      release.parts.push_back(std::move(part));
    }
  }
  if (release.parts.empty()) {
    return;
  }
  const Brake::Candidate candidate = {.node = release.authority->node,
                                      .zone = release.authority->zone};
  release.place = release.authority->brake->begin(candidate);
  release.authority->brake->acted(candidate, loop_.now());
  std::set<std::string> names;
  for (const ReleasePart& part : release.parts) {
    names.insert(part.volume.target.name);
  }
  const auto started = releases_.insert(releases_.end(), std::move(release));
  kube::NodePatch patch;
  patch.uid = started->authority->node_uid;
  patch.operations = release_operations(*started->authority->reading.storage, names);
  patch.of_status = true;
  patch.timeout = started->authority->leadership->limits().call;
  patch.may_send = [this, started] {
    for (const ReleasePart& part : started->parts) {
      const ReleaseVolume& volume = part.volume;
      const auto reason = refuse_release(*started->authority, ground_of(volume.verdict),
                                         volume.verdict.pod, volume.target, loop_.live_now());
      started->refused_at_the_wire = reason ? reason : started->refused_at_the_wire;
    }
    return !started->refused_at_the_wire;
  };
  started->handle = destroyer_.patch_node(
      started->authority->node, std::move(patch),
      [this, started](const Result<kube::NodePatchReply>& reply) { finish(started, reply); });
}

bool GuardedActions::join(ReleasePart& part, const std::shared_ptr<const Authority>& authority) {
  for (Release& release : releases_) {
    for (ReleasePart& other : release.parts) {
      if (release.authority == authority && other.volume.target.attachment.attachment.uid ==
                                                part.volume.target.attachment.attachment.uid) {
        other.listeners.push_back(std::move(part.listeners.front()));
        return true;
      }
    }
  }
  return false;
}

bool GuardedActions::may_begin(const ReleasePart& part, const Authority& authority) {
  const ReleaseVolume& volume = part.volume;
  auto reason = refuse_release(authority, ground_of(volume.verdict), volume.verdict.pod,
                               volume.target, loop_.now());
  if (!reason) {
    Record intent = record_of(volume, authority, Record::Kind::Intent, Reason::PolicyReleases);
    intent.text = volume.verdict.why;
    reason = trail_.write(intent) ? std::nullopt : std::optional(Reason::AuditUnwritable);
  }
  if (!reason) {
    return true;
  }
  Record record = record_of(volume, authority, Record::Kind::Refusal, *reason);
  record.text = volume.target.name;
  (void)trail_.write(record);
  tell(part.listeners, {.reason = *reason, .retry_after = std::nullopt});
  return false;
}

void GuardedActions::finish(Releases::iterator release, const Result<kube::NodePatchReply>& reply) {
  Releases finished;  // as of a deletion
  finished.splice(finished.begin(), releases_, release);
  const Release& ended = finished.front();
  const bool unsent =
      !reply && reply.error().kind == Error::Kind::Cancelled && ended.refused_at_the_wire;
  const Reason reason =
      unsent ? *ended.refused_at_the_wire : reason_of(reply, Reason::ReleaseOvertaken);
  for (const ReleasePart& part : ended.parts) {
    Record record = record_of(part.volume, *ended.authority,
                              unsent ? Record::Kind::Refusal : Record::Kind::Outcome, reason);
    record.text = reply ? part.volume.target.name : reply.error().message();
    record.server_audit_id = reply ? reply->audit_id : std::string();
    record.took = loop_.now() - ended.started;
    (void)trail_.write(record);
  }
  if (reason == Reason::Deposed) {
    deposed_();
  }
  for (const ReleasePart& part : ended.parts) {
    tell(part.listeners, {.reason = reason,
                          .retry_after = reply ? std::nullopt : reply.error().retry_after,
                          .text = reply ? std::string() : reply.error().message()});
  }
}

Record GuardedActions::record_of(const ReleaseVolume& volume, const Authority& authority,
                                 Record::Kind kind, Reason reason) {
  const DeletePod& verdict = volume.verdict;
  Record record;
  record.kind = kind;
  record.reason = reason;
  record.incident = verdict.incident;
  record.node = authority.node;
  record.node_uid = authority.node_uid;
  record.pod = verdict.pod.ref;
  record.pod_uid = verdict.pod.uid;
  record.attachment = volume.target.attachment.attachment.name;
  record.attachment_uid = volume.target.attachment.attachment.uid;
  record.policy = verdict.policy;
  record.policy_digest = verdict.policy_digest;
  record.action = "release_volume";
  record.attempt = verdict.attempt;
  return record;
}

}  // namespace moonfence::fence
