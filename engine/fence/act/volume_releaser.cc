#include "fence/act/volume_releaser.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

// How many attachments are read at once: live reads must find room beside them.
constexpr std::size_t kMostReads = 32;
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(5);
// What is remembered of volumes that were released: more than a node has attached.
constexpr std::size_t kMostReleased = 512;

// Refusals that no passing of time lifts.
bool is_final(Reason reason) {
  return reason == Reason::ReleaseNotServed || reason == Reason::VolumeUnfit ||
         reason == Reason::NodeRestarted || reason == Reason::DriverNotDeclared ||
         reason == Reason::AttachmentMismatch || reason == Reason::NotHeldByAttacher ||
         reason == Reason::ProtectedNamespace || reason == Reason::OwnNode ||
         reason == Reason::NoUid || reason == Reason::OutOfService ||
         reason == Reason::StorageWithdrawn;
}

// For FailedActs.
std::string act_of(const std::string& name) {
  return "release " + name;
}

Record record_about(const Detachment& detachment, const Authority& authority) {
  Record record = record_about("release_volume", authority, detachment.verdict);
  record.attachment = detachment.volume.attachment.value_or(std::string());
  record.attachment_uid = detachment.asked.value_or(Uid());
  return record;
}

}  // namespace

VolumeReleaser::VolumeReleaser(Surroundings& surroundings, const PassContext& context,
                               std::shared_ptr<const Authority> authority, Memory& memory,
                               const AttachmentDeleter& deleter, const VolumeUsers& users)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      deleter_(deleter),
      users_(users) {}

void VolumeReleaser::look(Moment known, PassResult& result, Act act, std::function<void()> looked) {
  act_ = std::move(act);
  looked_ = std::move(looked);
  checked_ = std::min(known, around_.access.loop.now());
  candidates_ = candidates(result);
  pending_ = 1;
  if (!candidates_.empty()) {
    read_lease(around_.in_force.release.controller, controller_);
  }
  for (const std::string& name : candidates_) {
    const std::string& driver = memory_.releases.at(name).detachment.volume.driver;
    const auto attacher = around_.in_force.release.attachers.find(driver);
    if (attacher != around_.in_force.release.attachers.end() && !attachers_.contains(driver)) {
      read_lease(attacher->second, attachers_[driver]);
    }
    read_attachment(name);
  }
  read_one();
}

std::vector<std::string> VolumeReleaser::candidates(PassResult& result) {
  std::vector<std::string> ready;
  bool unacknowledged = false;
  const auto storage = authority_->reading.storage;
  std::vector<std::string> names;
  for (const auto& [name, pending] : memory_.releases) {
    names.push_back(name);
  }
  for (const std::string& name : names) {
    PendingRelease& pending = memory_.releases.at(name);
    if (!around_.in_force.release.on) {  // it was, for the leader before us
      tell(pending, Record::Kind::Refusal, Reason::ReleaseNotServed, "");
      drop(name);
    } else if (!deleter_.is_in_force(pending.detachment)) {
      tell(pending, Record::Kind::Refusal, Reason::PolicyChanged,
           "nobody can be asked again: its pod is gone");
      drop(name);
    } else if (has_no_object(authority_->reading)) {
      tell(pending, Record::Kind::Refusal, Reason::NodeGone, pending.name);
      drop(name);  // with its object went the status that claims the volume
    } else if (around_.access.loop.now() - pending.gone_at > kGiveUp) {
      tell(pending, Record::Kind::IncidentHeld, Reason::ReleaseUnacknowledged, pending.name);
      drop(name);
    } else if (storage == nullptr) {
      waits_ = true;  // its status could not be understood
    } else if (awaits(pending, *storage)) {
      unacknowledged = unacknowledged || pending.sent_at;
      waits_ = true;
      if (!memory_.failed.still_failed(act_of(name), result)) {
        ready.push_back(name);
      }
    } else {
      drop(name);
    }
  }
  if (unacknowledged) {
    return {};  // one portion after the other
  }
  std::stable_sort(ready.begin(), ready.end(), [this](const auto& one, const auto& other) {
    return memory_.releases.at(one).detachment.verdict.pod.priority >
           memory_.releases.at(other).detachment.verdict.pod.priority;
  });
  ready.resize(std::min(ready.size(), kMostReads));
  return ready;
}

// False: nothing is left to be done for it.
bool VolumeReleaser::awaits(PendingRelease& pending, const kube::NodeStorage& storage) {
  const Moment now = around_.access.loop.now();
  if (pending.sent_at) {
    if (!is_attached(storage, pending.name)) {
      Record record = record_about(pending.detachment, *authority_);
      record.kind = Record::Kind::Outcome;
      record.reason = Reason::ReleaseAcknowledged;
      record.text = pending.name;
      record.took = now - *pending.sent_at;
      (void)around_.output.trail.write(record);
      pending.acknowledged_at = now;
      return false;
    }
    if (now - *pending.sent_at > kAcknowledgement) {
      tell(pending, Record::Kind::IncidentHeld, Reason::ReleaseUnacknowledged, pending.name);
      return false;
    }
    return true;
  }
  pending.name = unique_name(*pending.detachment.volume.attachment, storage, authority_->node);
  // What the kubelet does not claim to use the controller detaches by itself.
  return is_in_use(storage, pending.name);
}

void VolumeReleaser::read_lease(const ObjectRef& lease, std::string& silence) {
  silence = "its Lease could not be asked for";
  const auto path = kube::lease_path(lease);
  if (!path) {
    return;
  }
  ++pending_;
  reads_.push_back(
      around_.access.reader.get(*path, [this, ref = lease.text(), sent = around_.access.loop.now(),
                                        &silence](const Result<kube::ApiReply>& reply) {
        const auto found = reply ? kube::decode_lease(reply->body)
                                 : Result<kube::Lease>(failure(Error(reply.error())));
        silence =
            found ? memory_.renewals.silence(ref, *found, around_.access.when_written(*found), sent)
                  : found.error().message();
        read_one();
      }));
}

void VolumeReleaser::read_attachment(const std::string& name) {
  ++pending_;
  reads_.push_back(around_.access.reader.get_attachment(
      name, [this, name](const Result<kube::Attachment>& found) {
        if (!found && found.error().kind == Error::Kind::NotFound) {
          absent_.insert(name);
        } else if (found) {
          tell(memory_.releases.at(name), Record::Kind::Refusal, Reason::AttachmentPresent,
               "something on the node wants the volume again");
          drop(name);
        }
        read_one();
      }));
}

void VolumeReleaser::read_one() {
  if (--pending_ == 0) {
    choose();
  }
}

void VolumeReleaser::choose() {
  std::vector<std::string> portion;
  for (const std::string& name : candidates_) {
    if (!absent_.contains(name) || portion.size() == kPortion) {
      continue;
    }
    PendingRelease& pending = memory_.releases.at(name);
    const Uid& pod = pending.detachment.verdict.pod.uid;
    if (const std::string user = users_.other_user(pending.detachment.volume, pod); !user.empty()) {
      tell(pending, Record::Kind::Refusal, Reason::VolumeInUse, user);
    } else if (users_.is_there(pod)) {
      tell(pending, Record::Kind::Refusal, Reason::VolumeInUse, "its own pod is there");
    } else if (const std::string silence = silent_attacher(pending); !silence.empty()) {
      tell(pending, Record::Kind::Refusal, Reason::AttacherSilent, silence);
    } else if (!controller_.empty()) {
      tell(pending, Record::Kind::Refusal, Reason::ControllerSilent, controller_);
    } else {
      portion.push_back(name);
    }
  }
  if (!portion.empty()) {
    act_(std::move(portion));
  }
  looked_();
}

std::vector<ReleaseVolume> VolumeReleaser::order(const std::vector<std::string>& portion) {
  std::vector<ReleaseVolume> volumes;
  for (const std::string& name : portion) {
    PendingRelease& pending = memory_.releases.at(name);
    pending.may_have_left = true;  // until its outcome is known
    const Detachment& detachment = pending.detachment;
    volumes.push_back({.verdict = detachment.verdict,
                       .target = {.attachment = {.attachment = *detachment.held,
                                                 .driver = detachment.volume.driver,
                                                 .volume = detachment.volume.pv,
                                                 .handle = detachment.volume.handle,
                                                 .used_by_others = false,
                                                 .before_pod = detachment.before_pod},
                                  .name = pending.name,
                                  .attachment_is_gone = absent_.contains(name),
                                  .controller_is_alive = controller_.empty(),
                                  .attacher_is_alive = silent_attacher(pending).empty(),
                                  .carried = detachment.carried,
                                  .checked = checked_,
                                  .seen = authority_->reading.storage}});
    volumes.back().verdict.attempt = context_.attempt;
  }
  return volumes;
}

void VolumeReleaser::ended(const ReleaseVolume& volume, const ActionOutcome& outcome,
                           PassResult& result) {
  const std::string& name = volume.target.attachment.attachment.name;
  const auto found = memory_.releases.find(name);
  if (found == memory_.releases.end()) {
    return;
  }
  const Reason reason = outcome.reason;
  const bool was_late = std::exchange(found->second.late, reason == Reason::ReadingTooOld);
  found->second.may_have_left = reason == Reason::OutcomeLost || reason == Reason::Retryable;
  if (reason == Reason::Done) {
    found->second.sent_at = around_.access.loop.now();
    waits_ = true;
    memory_.release_pause = Duration::zero();
  } else if (is_final(reason)) {
    drop(name);
  } else if (reason == Reason::ReleaseOvertaken || (reason == Reason::ReadingTooOld && !was_late)) {
    waits_ = true;  // the next pass begins anew
  } else if (reason == Reason::OnHold) {
    result.hold("release of attachment " + name, kHoldPause);
  } else if (reason == Reason::ProofMissing) {
    result.hold(outcome.about("release of attachment " + name), kHoldPause, Reason::ProofMissing);
  } else if (is_braking(reason)) {
    result.braked = reason;
  } else if (reason == Reason::PolicyChanged || reason == Reason::OutsideBinding) {
    result.policies_changed = true;
  } else {
    memory_.failed.fail(act_of(name), "release of attachment " + name, outcome, result,
                        around_.access.loop.now());
  }
}

void VolumeReleaser::sum_up(PassResult& result) {
  if (!waits_ || memory_.releases.empty()) {
    return;
  }
  memory_.release_pause =
      std::clamp(memory_.release_pause * 2, Duration(kFirstPause), Duration(kLongestPause));
  result.look_again =
      std::min(result.look_again.value_or(memory_.release_pause), memory_.release_pause);
}

void VolumeReleaser::retire() {
  reads_.clear();
}

void VolumeReleaser::drop(const std::string& name) {
  const auto found = memory_.releases.find(name);
  if (authority_->ledger != nullptr && found->second.detachment.asked) {
    authority_->ledger->release_over(*found->second.detachment.asked);
  }
  if (found->second.sent_at && memory_.released.size() < kMostReleased) {
    memory_.released.insert_or_assign(name, std::move(found->second));
  }
  memory_.releases.erase(found);
}

std::string VolumeReleaser::silent_attacher(const PendingRelease& pending) const {
  const auto attacher = attachers_.find(pending.detachment.volume.driver);
  return attacher == attachers_.end() ? std::string() : attacher->second;
}

void VolumeReleaser::tell(PendingRelease& pending, Record::Kind kind, Reason reason,
                          const std::string& text) {
  std::string news = std::string(audit::code(reason)) + " " + text;
  if (pending.detachment.told == news) {
    return;
  }
  pending.detachment.told = std::move(news);
  Record record = record_about(pending.detachment, *authority_);
  record.kind = kind;
  record.reason = reason;
  record.text = text;
  (void)around_.output.trail.write(record);
}

namespace {

// What is told of a volume whose node came back.
std::string told_of(const PendingRelease& volume, Duration overlap) {
  if (!volume.sent_at) {
    return volume.may_have_left
               ? "the node came back while its volume was being released; another node may have "
                 "it, look at the file system"
               : "the node came back after its storage had let go; it is not released, look at "
                 "the file system";
  }
  if (!volume.acknowledged_at) {
    return "the node came back after its volume was released; another node may have it, look at "
           "the file system";
  }
  return "the node came back " +
         format_duration(std::chrono::floor<std::chrono::milliseconds>(overlap)) +
         " after Kubernetes took its volume off it; for so long another node may have had it too, "
         "look at the file system";
}

}  // namespace

void report_return(Surroundings& surroundings, const Authority& authority, const Memory& memory) {
  const auto report = [&](const Detachment& detachment, const std::string& text, Duration overlap) {
    Record record = record_about(detachment, authority);
    record.kind = Record::Kind::Refusal;
    record.reason = Reason::StorageWithdrawn;
    record.text = text;
    record.took = overlap;
    (void)surroundings.output.trail.write(record);
  };
  for (const auto& [name, detachment] : memory.detachments) {
    if (detachment.asked) {
      report(detachment,
             "the node came back while its storage was told to let go; it is not "
             "released, look at the file system",
             Duration::zero());
    }
  }
  const Moment now = surroundings.access.loop.now();
  for (const auto* volumes : {&memory.releases, &memory.released}) {
    for (const auto& [name, volume] : *volumes) {
      const Duration overlap = now - volume.acknowledged_at.value_or(now);
      report(volume.detachment, told_of(volume, overlap), overlap);
    }
  }
}

}  // namespace moonfence::fence
