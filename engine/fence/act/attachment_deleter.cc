#include "fence/act/attachment_deleter.h"

#include <algorithm>
#include <utility>

#include "fence/act/steps.h"
#include "fence/rules/volume_release.h"
#include "kube/objects/decode.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// How often in a row they are left for the next pass, because lists grew too old, before it counts
// as a failure, which is told.
constexpr unsigned kPutOffInSilence = 1;
// How soon the attachments are looked at again; doubled while nothing changes.
constexpr Duration kFirstLook = std::chrono::milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(5);
// The same when only a policy's next word is waited for.
constexpr Duration kLongestIdlePause = std::chrono::seconds(30);
// Six minutes after the pod Kubernetes acts as if the storage had let go: time to do something.
constexpr Duration kAlarm = std::chrono::minutes(4);

AttachmentCase target_of(const Detachment& detachment, const kube::Attachment& attachment) {
  return {.attachment = attachment,
          .driver = detachment.volume.driver,
          .volume = detachment.volume.pv,
          .handle = detachment.volume.handle,
          .used_by_others = false,
          .before_pod = detachment.before_pod};
}

// Why the controller could never act on a release, "" when it could. Asked before the pod goes, so
// that nothing is promised that the guard would have to refuse in the end.
std::string unfit_for_release(const policy::VolumeFacts& volume, const Reading& reading) {
  if (volume.handle.find('^') != std::string::npos) {
    return "its handle contains '^'";
  }
  const bool is_managed = reading.storage == nullptr || reading.storage->attach_managed;
  return is_managed ? "" : "no controller attaches the volumes of this node";
}

}  // namespace

AttachmentDeleter::AttachmentDeleter(Surroundings& surroundings, const PassContext& context,
                                     std::shared_ptr<const Authority> authority, Memory& memory,
                                     const VolumeUsers& users)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      users_(users),
      lookups_(around_.access.reader) {}

// Inside an answer of lookups_, perhaps: it dies with us.
void AttachmentDeleter::retire() {
  retired_ = true;
  all_read_.cancel();
}

void AttachmentDeleter::plan(const PodPlan& pod_plan) {
  pod_waits_ = pod_waits_ || !pod_plan.deletes_pod;
  for (const policy::VolumeFacts& volume : pod_plan.volumes) {
    if (!volume.attachment) {
      continue;  // it is not attached to this node
    }
    const auto [entry, is_new] = memory_.detachments.try_emplace(*volume.attachment);
    Detachment& detachment = entry->second;
    detachment.verdict = pod_plan.deletion;
    detachment.volume = volume;
    detachment.before_pod = !pod_plan.deletes_pod;
    detachment.releases = pod_plan.releases && gains_by_release(volume);
    const std::string unfit = unfit_for_release(volume, authority_->reading);
    if (detachment.releases && !unfit.empty()) {
      detachment.releases = false;
      if (is_new) {
        record(detachment, Record::Kind::Refusal, Reason::VolumeUnfit, unfit);
      }
    }
    detachment.wanted_in = context_.attempt;
    if (std::exchange(detachment.inherited, false)) {
      detachment.asked.reset();
    }
    plan_step(detachment);
    memory_.detach_pause = is_new ? Duration::zero() : memory_.detach_pause;
  }
}

// What is known of the attachment by now; the rest, if another has its name, when it is looked at.
void AttachmentDeleter::plan_step(const Detachment& detachment) const {
  const auto known = attachments_.find(detachment.volume.attachment.value_or(std::string()));
  if (known != attachments_.end() && authority_->ledger != nullptr) {
    authority_->ledger->plan(
        step_of({.verdict = detachment.verdict, .target = target_of(detachment, known->second)},
                detachment, *authority_));
  }
}

std::set<std::string> AttachmentDeleter::wanted() const {
  std::set<std::string> names;
  for (const auto& [name, detachment] : memory_.detachments) {
    if (detachment.wanted_in == context_.attempt) {
      names.insert(name);
    }
  }
  return names;
}

void AttachmentDeleter::look(bool complete, std::function<bool()> outdated, Act act,
                             std::function<void()> looked) {
  outdated_ = std::move(outdated);
  act_ = std::move(act);
  looked_ = std::move(looked);
  std::vector<std::string> names;
  for (const auto& [name, detachment] : memory_.detachments) {
    names.push_back(name);
  }
  std::vector<std::string> unread;
  pending_ = names.size() + 1;
  for (const std::string& name : names) {
    Detachment& detachment = memory_.detachments.at(name);
    const Stand stand = stand_of(detachment, complete);
    if (stand == Stand::Dropped) {
      memory_.detachments.erase(name);
    }
    if (stand != Stand::Consider) {
      looked_at_one();
    } else if (const auto known = attachments_.find(name); known != attachments_.end()) {
      consider(detachment, known->second);
      looked_at_one();
    } else {
      unread.push_back(name);
    }
  }
  read(unread);
  looked_at_one();
}

// Those of hundreds of pods are one list (fence/read/lookups), again and again until they are gone.
void AttachmentDeleter::read(const std::vector<std::string>& names) {
  const std::size_t count = names.size();
  const Lookups::Together together(lookups_);
  for (const std::string& name : names) {
    lookups_.get_of(kAttachments, name, kube::attachment_path(name),
                    [this, name, count](const Result<Lookups::Body>& found) {
                      answers_.emplace(name, found);
                      if (answers_.size() < count || retired_) {
                        return;
                      }
                      // What follows may end us, and lookups_ with us.
                      all_read_ = around_.access.loop.in_next_turn([this] {
                        for (const auto& [which, answer] : std::exchange(answers_, {})) {
                          arrived(which, answer);
                        }
                      });
                    });
  }
}

AttachmentDeleter::Stand AttachmentDeleter::stand_of(Detachment& detachment, bool complete) {
  const DeletePod& verdict = detachment.verdict;
  const Uid& pod = verdict.pod.uid;
  const bool is_judged = users_.has_seen(pod) && !memory_.handled.contains(pod);
  if (is_judged && detachment.wanted_in != context_.attempt &&
      (!detachment.asked || detachment.inherited)) {
    return Stand::Dropped;  // its policy, or a guard, has another mind by now
  }
  if (detachment.refused) {
    return Stand::Refused;
  }
  if (!is_in_force(detachment)) {
    tell(detachment, Reason::PolicyChanged, "nobody can be asked again: its pod is gone");
    return Stand::Dropped;
  }
  const bool is_gone = users_.is_gone(pod) || (complete && !users_.has_seen(pod));
  if (!detachment.before_pod && !is_gone) {
    if (!is_judged) {  // otherwise its deletion failed, and is repeated at the pace of retries
      wait(detachment, Reason::AwaitingDetach, "pod " + verdict.pod.ref.text() + " is still there");
    }
    return Stand::Waits;
  }
  if (is_gone && !detachment.pod_gone_at) {
    detachment.pod_gone_at = around_.access.loop.now();
  }
  return Stand::Consider;
}

// A pod that is gone cannot be judged again. After a reload its verdict holds when the same policy
// enforces it as before and nobody is there who might forbid it.
bool AttachmentDeleter::is_in_force(Detachment& detachment) const {
  DeletePod& verdict = detachment.verdict;
  if (verdict.set_digest == context_.set->digest) {
    return true;
  }
  bool enforced = false;
  bool guarded = false;
  for (const policy::Binding& binding : context_.set->bindings) {
    const bool covers = binding.scope.covers(verdict.pod.ref.space);
    enforced = enforced ||
               (covers && binding.policy != nullptr && binding.name == verdict.policy &&
                binding.digest == verdict.policy_digest && binding.mode == policy::Mode::Enforce);
    guarded = guarded || (covers && (binding.policy == nullptr || binding.policy->is_guard()));
  }
  if (!enforced || guarded) {
    return false;
  }
  verdict.set_digest = context_.set->digest;
  return true;
}

void AttachmentDeleter::arrived(const std::string& name, const Result<Lookups::Body>& found) {
  if (found && *found == nullptr) {
    gone(name);
    looked_at_one();
    return;
  }
  const Result<kube::Attachment> attachment =
      found ? kube::decode_attachment(**found) : failure(Error(found.error()));
  if (attachment && attachment->name == name) {
    consider(memory_.detachments.at(name), *attachment);
  } else {
    around_.output.log.warning(
        "attachment_unreadable",
        {{"incident", context_.incident.text()},
         {"attachment", name},
         {"error", attachment ? "another one was answered" : attachment.error().message()}});
    ++unread_;
  }
  looked_at_one();
}

void AttachmentDeleter::gone(const std::string& name) {
  const auto found = memory_.detachments.find(name);
  Detachment& detachment = found->second;
  if (detachment.marked_at) {
    record(detachment, Record::Kind::Outcome, Reason::Detached, "");
  }
  if (detachment.asked && authority_->ledger != nullptr) {
    authority_->ledger->gone(*detachment.asked);
  }
  // One that somebody else deleted before we had asked is not ours to draw conclusions from. Nor is
  // one that the leader before us may not have come to ask.
  if (detachment.releases && detachment.asked && !detachment.inherited && detachment.held &&
      detachment.held->uid == *detachment.asked) {
    memory_.releases.insert_or_assign(name, PendingRelease{.detachment = std::move(detachment),
                                                           .gone_at = around_.access.loop.now()});
    memory_.release_pause = Duration::zero();
  }
  memory_.detachments.erase(found);
  memory_.detach_pause = Duration::zero();
}

void AttachmentDeleter::looked_at_one() {
  if (--pending_ == 0) {
    looked_();
  }
}

void AttachmentDeleter::consider(Detachment& detachment, const kube::Attachment& attachment) {
  if (detachment.asked && *detachment.asked != attachment.uid) {
    tell(detachment, Reason::Replaced,
         "another attachment has its name: something on the node wants the volume again");
    if (authority_->ledger != nullptr) {
      authority_->ledger->refused(*detachment.asked, Reason::Replaced);
    }
    memory_.detachments.erase(attachment.name);
    return;
  }
  if (attachment.held_by_attacher) {
    detachment.held = attachment;
  }
  alarm_before_force(detachment, attachment);
  if (attachment.terminating) {
    detachment.asked = attachment.uid;
    wait(detachment, Reason::AwaitingDetach, attachment.detach_error);
    return;
  }
  if (detachment.before_pod && detachment.wanted_in != context_.attempt) {
    memory_.detachments.erase(attachment.name);  // it was asked for, in vain, and is wanted no more
    return;
  }
  if (outdated_()) {
    put_off_ = true;
    return;
  }
  if (const std::string user = users_.other_user(detachment.volume, detachment.verdict.pod.uid);
      !user.empty()) {
    if (users_.is_used_by_successor(
            detachment.volume)) {  // and may be for years: the attachment is its own now
      tell(detachment, Reason::VolumeInUse, user);
      memory_.detachments.erase(attachment.name);
      return;
    }
    wait(detachment, Reason::VolumeInUse, user);
    return;
  }
  if (detachment.before_pod && !detachment.verdict.pod.deletion_timestamp) {
    wait(detachment, Reason::PodNotTerminating, "");
    return;
  }
  detachment.asked = attachment.uid;  // one of another UID is another one, whatever comes of this
  detachment.inherited = detachment.carried = false;
  DeleteAttachment deletion = {.verdict = detachment.verdict,
                               .target = target_of(detachment, attachment)};
  if (authority_->ledger != nullptr) {
    authority_->ledger->plan(step_of(deletion, detachment, *authority_));
  }
  act_(std::move(deletion));
}

void AttachmentDeleter::alarm_before_force(Detachment& detachment,
                                           const kube::Attachment& attachment) {
  if (detachment.alarmed || !detachment.pod_gone_at ||
      around_.access.loop.now() - *detachment.pod_gone_at < kAlarm) {
    return;
  }
  detachment.alarmed = true;
  record(detachment, Record::Kind::IncidentHeld, Reason::ForcedDetachNear, attachment.detach_error);
}

void AttachmentDeleter::ended(const DeleteAttachment& deletion, const ActionOutcome& outcome,
                              PassResult& result) {
  const std::string& name = deletion.target.attachment.name;
  const auto found = memory_.detachments.find(name);
  if (found == memory_.detachments.end()) {
    return;
  }
  const Reason reason = outcome.reason;
  if (reason == Reason::MarkedOnly) {
    found->second.marked_at = around_.access.loop.now();
    waiting_.insert(name);
    memory_.detach_pause = Duration::zero();
  } else if (reason == Reason::Done || reason == Reason::AlreadyGone) {
    gone(name);
  } else if (outcome.settled()) {
    memory_.detachments.erase(found);
    memory_.detach_pause = Duration::zero();
  } else if (is_braking(reason)) {
    result.braked = reason;
  } else if (reason == Reason::PolicyChanged || reason == Reason::OutsideBinding) {
    result.policies_changed = true;
  } else if (reason == Reason::SignalUnfit || reason == Reason::KernelAnswers ||
             reason == Reason::KernelUnsure) {
    result.unfit = true;
  } else if (reason == Reason::OnHold) {
    result.hold("attachment " + name, kHoldPause);
  } else if (reason == Reason::ProofMissing) {
    result.hold(outcome.about("attachment " + name), kHoldPause, Reason::ProofMissing);
  } else if (is_hopeless(reason) ||
             (reason == Reason::NodeReplaced && authority_->reading.successor)) {
    found->second.refused = reason;
  } else {
    memory_.failed.fail(deletion.target.attachment.uid.text(), "attachment " + name, outcome,
                        result, around_.access.loop.now());
  }
}

void AttachmentDeleter::sum_up(PassResult& result) {
  result.unreadable = result.unreadable || unread_ > 0;
  memory_.put_off = put_off_ ? memory_.put_off + 1 : 0;
  if (memory_.put_off > kPutOffInSilence) {
    result.fail("attachments: the pods that may use them were listed too long ago", std::nullopt,
                Reason::ReadingTooOld);
  } else if (put_off_) {
    result.look_again = std::min(result.look_again.value_or(kFirstLook), Duration(kFirstLook));
  }
  if (waiting_.empty() && !pod_waits_) {
    return;
  }
  const Duration longest = waiting_.empty() ? kLongestIdlePause : kLongestPause;
  memory_.detach_pause =
      std::clamp(memory_.detach_pause * 2, Duration(kFirstLook), Duration(longest));
  result.look_again =
      std::min(result.look_again.value_or(memory_.detach_pause), memory_.detach_pause);
}

void AttachmentDeleter::wait(Detachment& detachment, Reason reason, const std::string& text) {
  waiting_.insert(detachment.volume.attachment.value_or(std::string()));
  tell(detachment, reason, text);
}

void AttachmentDeleter::tell(Detachment& detachment, Reason reason, const std::string& text) {
  std::string news = std::string(audit::code(reason)) + " " + text;
  if (detachment.told == news) {
    return;
  }
  detachment.told = std::move(news);
  record(detachment,
         reason == Reason::AwaitingDetach ? Record::Kind::IncidentHeld : Record::Kind::Refusal,
         reason, text);
}

void AttachmentDeleter::record(const Detachment& detachment, Record::Kind kind, Reason reason,
                               const std::string& text) {
  Record record =
      record_about(reason == Reason::VolumeUnfit ? "release_volume" : "delete_attachment",
                   *authority_, detachment.verdict);
  record.kind = kind;
  record.reason = reason;
  record.attachment = detachment.volume.attachment.value_or(std::string());
  record.attachment_uid = detachment.asked.value_or(Uid());
  record.text = text;
  record.attempt = context_.attempt;
  if (reason == Reason::Detached) {
    record.took = around_.access.loop.now() - *detachment.marked_at;
  }
  (void)around_.output.trail.write(record);
}

}  // namespace moonfence::fence
