#include "fence/detaching.h"

#include <algorithm>
#include <utility>

#include "policy/pod_facts.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// How soon the attachments are looked at again; doubled while nothing changes.
constexpr Duration kFirstLook = std::chrono::milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(5);

// Two PersistentVolumes may name one volume: it is known by driver and handle (release-step.md §3).
std::string key_of(const policy::VolumeFacts& volume) {
  return volume.driver + "^" + volume.handle;
}

bool is_finished(const kube::Pod& pod) {
  return pod.phase == "Succeeded" || pod.phase == "Failed";
}

}  // namespace

bool may_detach(const policy::PolicySet& set) {
  return std::any_of(set.bindings.begin(), set.bindings.end(), [](const policy::Binding& binding) {
    return binding.policy != nullptr && binding.policy->needs().volumes &&
           binding.policy->can_act();
  });
}

Detaching::Detaching(Surroundings& surroundings, const Occasion& occasion,
                     std::shared_ptr<const Authority> authority, Memory& memory)
    : around_(surroundings),
      occasion_(occasion),
      authority_(std::move(authority)),
      memory_(memory) {}

void Detaching::saw(const kube::Pod& pod, const Gathered& gathered) {
  present_.insert(pod.uid);
  if (is_finished(pod)) {
    return;
  }
  if (!gathered.volumes_missing.empty() && blind_.empty()) {
    blind_ = "the volumes of pod " + pod.ref.text() + " are not known: " + gathered.volumes_missing;
  }
  if (gathered.facts.volumes) {
    for (const policy::VolumeFacts& volume : *gathered.facts.volumes) {
      users_[key_of(volume)].emplace(pod.uid, pod.ref.text());
    }
  }
  attachments_.insert(gathered.attachments.begin(), gathered.attachments.end());
}

void Detaching::plan(const Deed& deed) {
  pod_waits_ = pod_waits_ || !deed.deletes_pod;
  for (const policy::VolumeFacts& volume : deed.volumes) {
    if (!volume.attachment) {
      continue;  // it is not attached to this node
    }
    Detachment& detachment = memory_.detachments[*volume.attachment];
    detachment.verdict = deed.deletion;
    detachment.volume = volume;
    detachment.before_pod = !deed.deletes_pod;
    detachment.wanted_in = occasion_.attempt;
    memory_.detach_pause = Duration::zero();
  }
}

void Detaching::pod_gone(const Uid& pod) {
  gone_.insert(pod);
}

void Detaching::look(bool complete, Act act, std::function<void()> looked) {
  act_ = std::move(act);
  looked_ = std::move(looked);
  if (!complete && blind_.empty()) {
    blind_ = "not all pods of the node could be listed";
  }
  std::vector<std::string> names;
  for (const auto& [name, detachment] : memory_.detachments) {
    names.push_back(name);
  }
  pending_ = names.size() + 1;
  for (const std::string& name : names) {
    Detachment& detachment = memory_.detachments.at(name);
    const Uid& pod = detachment.verdict.pod.uid;
    const bool wanted = !detachment.before_pod || detachment.wanted_in == occasion_.attempt;
    if (!wanted && !detachment.asked) {
      memory_.detachments.erase(name);  // its policy has another mind by now
      looked_at_one();
    } else if (!detachment.before_pod && (!complete || present_.contains(pod)) &&
               !gone_.contains(pod)) {
      tell(detachment, Reason::AwaitingDetach,
           "pod " + detachment.verdict.pod.ref.text() + " is still there");  // by a finalizer
      looked_at_one();
    } else if (const auto known = attachments_.find(name); known != attachments_.end()) {
      consider(detachment, known->second);
      looked_at_one();
    } else {
      reads_.push_back(around_.reader.get_attachment(
          name, [this, name](const Result<kube::Attachment>& read) { arrived(name, read); }));
    }
  }
  looked_at_one();
}

void Detaching::arrived(const std::string& name, const Result<kube::Attachment>& attachment) {
  if (attachment) {
    consider(memory_.detachments.at(name), *attachment);
  } else if (attachment.error().kind == Error::Kind::NotFound) {
    memory_.detachments.erase(name);
    memory_.detach_pause = Duration::zero();
  } else {
    around_.log.warning("attachment_unreadable", {{"incident", occasion_.incident.text()},
                                                  {"attachment", name},
                                                  {"error", attachment.error().message()}});
    ++unread_;
  }
  looked_at_one();
}

void Detaching::looked_at_one() {
  if (--pending_ == 0) {
    looked_();
  }
}

void Detaching::consider(Detachment& detachment, const kube::Attachment& attachment) {
  if (detachment.asked && *detachment.asked != attachment.uid) {
    tell(detachment, Reason::Replaced,
         "another attachment has its name: something on the node wants the volume again");
    memory_.detachments.erase(attachment.name);
    return;
  }
  if (attachment.terminating) {
    detachment.asked = attachment.uid;
    tell(detachment, Reason::AwaitingDetach, attachment.detach_error);
    return;
  }
  const std::string user = other_user(detachment);
  if (!user.empty()) {
    tell(detachment, Reason::VolumeInUse, user);
    return;
  }
  act_({.verdict = detachment.verdict,
        .target = {.attachment = attachment,
                   .driver = detachment.volume.driver,
                   .volume = detachment.volume.pv,
                   .used_by_others = false,
                   .before_pod = detachment.before_pod}});
}

std::string Detaching::other_user(const Detachment& detachment) const {
  if (!blind_.empty()) {
    return blind_;
  }
  const auto users = users_.find(key_of(detachment.volume));
  if (users != users_.end()) {
    for (const auto& [uid, name] : users->second) {
      if (uid != detachment.verdict.pod.uid && !gone_.contains(uid)) {
        return "pod " + name + " of this node uses the volume too";
      }
    }
  }
  return {};
}

void Detaching::ended(const AttachmentDeletion& deletion, const ActionOutcome& outcome,
                      PassResult& result) {
  const std::string& name = deletion.target.attachment.name;
  const auto found = memory_.detachments.find(name);
  if (found == memory_.detachments.end()) {
    return;
  }
  memory_.detach_pause = Duration::zero();
  if (outcome.reason == Reason::MarkedOnly || outcome.reason == Reason::OutcomeLost) {
    found->second.asked = deletion.target.attachment.uid;
  } else if (outcome.settled() || !may_succeed_later(outcome.reason)) {
    memory_.detachments.erase(found);  // gone, or refused: the record says why
  } else {
    ++result.failed;
  }
}

void Detaching::sum_up(PassResult& result) {
  result.unreadable = result.unreadable || unread_ > 0;
  if (memory_.detachments.empty() && !pod_waits_) {
    return;
  }
  memory_.detach_pause =
      std::clamp(memory_.detach_pause * 2, Duration(kFirstLook), Duration(kLongestPause));
  result.look_again =
      std::min(result.look_again.value_or(memory_.detach_pause), memory_.detach_pause);
}

void Detaching::tell(Detachment& detachment, Reason reason, const std::string& text) {
  std::string news = std::string(audit::code(reason)) + " " + text;
  if (detachment.told == news) {
    return;
  }
  detachment.told = std::move(news);
  const PodDeletion& verdict = detachment.verdict;
  Record record;
  record.kind =
      reason == Reason::AwaitingDetach ? Record::Kind::IncidentHeld : Record::Kind::Refusal;
  record.reason = reason;
  record.incident = occasion_.incident;
  record.node = authority_->node;
  record.node_uid = authority_->node_uid;
  record.pod = verdict.pod.ref;
  record.pod_uid = verdict.pod.uid;
  record.attachment = detachment.volume.attachment.value_or(std::string());
  record.policy = verdict.policy;
  record.policy_digest = verdict.policy_digest;
  record.action = "delete_attachment";
  record.text = text;
  record.attempt = occasion_.attempt;
  (void)around_.trail.write(record);
}

}  // namespace moonfence::fence
