#include "fence/act/left_volumes.h"

#include <algorithm>
#include <utility>

#include "fence/rules/our_taints.h"
#include "fence/rules/volume_release.h"
#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

namespace {

std::string words_of(const kube::Attachment& attachment, std::string text) {
  if (attachment.terminating) {
    text += ", whose attachment is marked for deletion";
  }
  if (!attachment.detach_error.empty()) {
    text += "; " + attachment.detach_error;
  }
  return text;
}

}  // namespace

LeftVolumes::LeftVolumes(Surroundings& surroundings, const PassContext& context,
                         std::shared_ptr<const Authority> authority, Memory& memory,
                         const VolumeUsers& users)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      memory_(memory),
      users_(users),
      lookups_(around_.access.reader) {}

void LeftVolumes::retire() {
  next_.cancel();
  looked_ = nullptr;
}

bool LeftVolumes::look(const kube::Node& node, std::function<void()> looked) {
  if (std::exchange(has_looked_, true)) {
    return pending_ > 0 || next_.pending();
  }
  const std::set<std::string> names = unaccounted(node);
  std::erase_if(memory_.left_volumes,
                [&names](const auto& entry) { return !names.contains(entry.first); });
  if (names.empty()) {
    return false;
  }
  looked_ = std::move(looked);
  pending_ = names.size();
  const Lookups::Together together(lookups_);
  for (const std::string& name : names) {
    lookups_.get_of(
        kAttachments, name, kube::attachment_path(name),
        [this, name](const Result<Lookups::Body>& found) { attachment_arrived(name, found); });
  }
  return true;
}

// Kubernetes itself detaches from a node that is out of service, or does not exist.
std::set<std::string> LeftVolumes::unaccounted(const kube::Node& node) const {
  std::set<std::string> names;
  const Reading& reading = authority_->reading;
  if (around_.access.source != nullptr || has_no_object(reading) || !node.raw ||
      reading.out_of_service != Carried::Nothing) {
    return names;
  }
  for (const std::string& volume : volumes_of(*node.raw)) {
    std::string name = attachment_behind(volume, authority_->node);
    if (!name.empty() && !is_accounted_for(name)) {
      names.insert(std::move(name));
    }
  }
  return names;
}

// What could not be read is looked at in the next pass; that is no reason to tell of it.
void LeftVolumes::attachment_arrived(const std::string& name, const Result<Lookups::Body>& found) {
  if (!found) {
    ++left_;
  } else if (*found == nullptr) {
    memory_.left_volumes.erase(name);
  } else if (const auto attachment = kube::decode_attachment(**found);
             attachment && attachment->name == name && attachment->node == authority_->node) {
    if (!attachment->volume.empty()) {
      read_volume(*attachment);
      return;
    }
    inline_arrived(*attachment);
  }
  one_ended();
}

void LeftVolumes::read_volume(const kube::Attachment& attachment) {
  lookups_.get_of(kVolumes, attachment.volume, kube::volume_path(attachment.volume),
                  [this, attachment](const Result<Lookups::Body>& volume) {
                    volume_arrived(attachment, volume);
                    one_ended();
                  });
}

void LeftVolumes::volume_arrived(const kube::Attachment& attachment,
                                 const Result<Lookups::Body>& found) {
  if (!found) {
    ++left_;
    return;
  }
  const std::string space =
      *found == nullptr ? std::string() : kube::text_at(**found, "/spec/claimRef/namespace");
  if (may_be_detached_in(space)) {
    note(attachment, "volume " + attachment.volume + " of claim " + space + "/" +
                         kube::text_at(**found, "/spec/claimRef/name"));
  }
}

bool LeftVolumes::is_accounted_for(const std::string& attachment) const {
  return users_.may_use(attachment) || memory_.detachments.contains(attachment) ||
         memory_.releases.contains(attachment) || memory_.released.contains(attachment) ||
         memory_.decided.contains(attachment);
}

// It stood in a pod itself, and nobody can tell in which: any of its driver may be it.
void LeftVolumes::inline_arrived(const kube::Attachment& attachment) {
  if (may_detach(*context_.set) && !users_.has_inline_user(attachment.attacher)) {
    note(attachment, "a volume of driver " + attachment.attacher + " that stood in a pod itself");
  }
}

bool LeftVolumes::may_be_detached_in(const std::string& space) const {
  const auto& bindings = context_.set->bindings;
  return !space.empty() &&
         std::any_of(bindings.begin(), bindings.end(), [&space](const policy::Binding& binding) {
           return may_detach(binding) && binding.scope.covers(Namespace(space));
         });
}

void LeftVolumes::note(const kube::Attachment& attachment, const std::string& what) {
  ++left_;
  const Moment now = around_.access.loop.now();
  const auto [entry, is_new] = memory_.left_volumes.try_emplace(attachment.name);
  LeftVolume& left = entry->second;
  if (is_new || left.uid != attachment.uid) {
    left = {.uid = attachment.uid, .since = now, .told = std::nullopt};
  }
  if (now - left.since < kTellAfter) {
    return;
  }
  const std::string text = words_of(attachment, what);
  words_ = words_.empty() ? text : words_;
  if (left.told && now - *left.told < kTellAgain) {
    return;
  }
  left.told = now;
  Record record;
  record.kind = Record::Kind::IncidentHeld;
  record.reason = Reason::VolumeLeft;
  record.incident = context_.incident;
  record.node = authority_->node;
  record.node_uid = authority_->node_uid;
  record.attachment = attachment.name;
  record.attachment_uid = attachment.uid;
  record.text = text;
  record.attempt = context_.attempt;
  (void)around_.output.trail.write(record);
}

void LeftVolumes::one_ended() {
  if (--pending_ == 0) {
    // What follows may end us, and lookups_ with us.
    next_ = around_.access.loop.in_next_turn([this] {
      if (looked_) {
        looked_();
      }
    });
  }
}

void LeftVolumes::sum_up(PassResult& result) {
  if (left_ > 0) {
    result.look_again = std::min(result.look_again.value_or(kPause), Duration(kPause));
    result.left_behind = words_;
  }
}

}  // namespace moonfence::fence
