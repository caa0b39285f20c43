#include "fence/act/volume_users.h"

#include <algorithm>
#include <vector>

#include "policy/input/translated.h"

namespace moonfence::fence {
namespace {

// Two PersistentVolumes may name one volume: it is known by driver and handle,
// and one without a handle by its PersistentVolume.
std::string key_of(const policy::VolumeFacts& volume) {
  return volume.handle.empty() ? volume.driver + "/" + volume.pv
                               : volume.driver + "^" + volume.handle;
}

// An attachment serves whoever uses it, under whatever PersistentVolume.
std::string key_of_attachment(const std::string& name) {
  return "=" + name;
}

// All of a driver: by somebody whose volume has an attachment that nobody can name.
std::string key_of_all(const std::string& driver) {
  return driver + "*";
}

// The handle of a translated volume is known to Kubernetes alone. Its attachment bears the name of
// another PersistentVolume when that one of the same disk was attached first.
bool has_unknown_attachment(const policy::VolumeFacts& volume) {
  return volume.handle.empty() && !volume.driver.empty() && !volume.attachment;
}

bool is_attached(const Gathered& gathered, const std::string& volume) {
  return std::any_of(gathered.attachments.begin(), gathered.attachments.end(),
                     [&volume](const auto& entry) { return entry.second.volume == volume; });
}

}  // namespace

void VolumeUsers::saw(const kube::Pod& pod, const Gathered& gathered, bool of_successor) {
  if (of_successor) {
    of_successor_.insert(pod.uid);
  }
  seen_.insert(pod.uid);
  if (pod.has_finished()) {  // it uses none of them
    return;
  }
  if (!gathered.volumes_missing.empty() && blind_.empty()) {
    blind_ = "the volumes of pod " + pod.ref.text() + " are not known: " + gathered.volumes_missing;
  }
  const auto uses = [this, &pod](const std::string& key) {
    users_[key].emplace(pod.uid, pod.ref.text());
  };
  for (const auto& [name, attachment] : gathered.attachments) {
    used_.insert(name);
    uses(key_of_attachment(name));
  }
  for (const std::string& driver : policy::inline_drivers(*pod.raw)) {
    uses(key_of_all(driver));
  }
  for (const policy::VolumeFacts& volume :
       gathered.facts.volumes.value_or(std::vector<policy::VolumeFacts>())) {
    // A claim that is missing uses no other claim's volume, which is bound to that one alone, and
    // must not hold up the whole node (row LH-18). A volume that is missing may have been made
    // again under another name; its attachment tells which one it was.
    if (volume.state == "volume_missing") {
      if (blind_.empty() && !is_attached(gathered, volume.pv)) {
        blind_ = "pod " + pod.ref.text() + " uses claim " + volume.claim + " of a missing volume";
      }
    } else if (!volume.driver.empty()) {
      uses(has_unknown_attachment(volume) ? key_of_all(volume.driver) : key_of(volume));
    }
  }
}

void VolumeUsers::incomplete() {
  if (blind_.empty()) {
    blind_ = "not all pods of the node could be listed";
  }
}

std::string VolumeUsers::other_user(const policy::VolumeFacts& volume, const Uid& pod) const {
  if (!blind_.empty()) {
    return blind_;
  }
  std::string user = other_user(key_of(volume), pod);
  if (user.empty() && volume.attachment) {
    user = other_user(key_of_attachment(*volume.attachment), pod);
  }
  if (!user.empty()) {
    return "pod " + user + " of this node uses the volume too";
  }
  user = other_user(key_of_all(volume.driver), pod);
  return user.empty() ? std::string()
                      : "pod " + user +
                            " of this node may use the volume too: nobody can tell which "
                            "attachment of driver " +
                            volume.driver + " is that of its volume";
}

std::string VolumeUsers::other_user(const std::string& key, const Uid& pod) const {
  const auto users = users_.find(key);
  if (users != users_.end()) {
    for (const auto& [uid, name] : users->second) {
      if (uid != pod && !gone_.contains(uid)) {
        return name;
      }
    }
  }
  return {};
}

bool VolumeUsers::is_used_by_successor(const policy::VolumeFacts& volume) const {
  std::vector<std::string> keys = {key_of(volume), key_of_all(volume.driver)};
  if (volume.attachment) {
    keys.push_back(key_of_attachment(*volume.attachment));
  }
  return std::any_of(keys.begin(), keys.end(), [this](const std::string& key) {
    const auto users = users_.find(key);
    return users != users_.end() &&
           std::any_of(users->second.begin(), users->second.end(),
                       [this](const auto& user) { return of_successor_.contains(user.first); });
  });
}

bool VolumeUsers::has_inline_user(const std::string& driver) const {
  return users_.contains(key_of_all(driver));
}

}  // namespace moonfence::fence
