#include "sim/checkers/volume_checker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "sim/ground/facts.h"
#include "sim/ground/refusals.h"
#include "sim/ground/volumes.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

// A machine that comes back stops what was moved away as soon as its kubelet has read its pods;
// until then what ran on while it was cut off runs on.
constexpr Duration kCatchUp = std::chrono::seconds(60);

bool is_excused(const Machine& machine, Moment now) {
  return !machine.sound() ||
         (machine.impaired_since != Moment{} && now - machine.impaired_since <= kCatchUp);
}

}  // namespace

std::uint64_t VolumeChecker::fingerprint() const {
  std::uint64_t sum = 0xCBF29CE484222325U;
  // UIDs are random and names short: their first eight bytes and their length tell them apart.
  const auto take = [&sum](std::string_view text) {
    std::uint64_t word = text.size();
    std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
    sum = (sum ^ word) * 0x9E3779B97F4A7C15U;
    sum ^= sum >> 29U;
  };
  const Machines& machines = truth().machines();
  for (const auto& [name, machine] : machines.by_name) {
    take(machine.sound() ? "+" : "-");
    for (const auto& [uid, container] : machine.containers) {
      take(uid);
    }
  }
  for (const auto& [volume, names] : machines.published) {
    take("|");
    for (const std::string& name : names) {
      take(name);
    }
  }
  for (const auto& [about, refusal] : machines.refusals) {
    take(refusal.holds ? "!" : "?");
  }
  return sum;
}

void VolumeChecker::after_cluster_turn() {
  const std::uint64_t now_seen = fingerprint();
  if (std::exchange(looked_at_, now_seen) == now_seen) {
    return;
  }
  const Machines& machines = truth().machines();
  std::map<std::string, std::set<std::string>> writers;
  for (const auto& [name, machine] : machines.by_name) {
    for (const auto& [uid, container] : machine.containers) {
      for (const std::string& volume : container.volumes) {
        if (may_write(machines, name, container, volume)) {
          writers[volume].insert(name);
        }
      }
    }
  }
  seen_.clear();
  for (const auto& [volume, names] : writers) {
    std::set<std::string> holders = names;
    if (const auto published = machines.published.find(volume);
        published != machines.published.end()) {
      holders.insert(published->second.begin(), published->second.end());
    }
    if (holders.size() < 2) {
      continue;
    }
    for (const std::string& one : names) {
      for (const std::string& other : holders) {
        // Of two that both write, each pair once.
        if (one != other && (!names.contains(other) || one < other)) {
          judge(volume, machines.by_name.at(one), machines.by_name.at(other),
                names.contains(other));
        }
      }
    }
  }
  doubled_ = seen_;
}

// Kubernetes by itself attaches a volume to a second node while the first still has it: after a
// restart in the middle of detaching, and since 1.29 after a detach that failed.
bool VolumeChecker::may_be_attached_twice() const {
  constexpr int kDoubts = 29;
  return plan().kubernetes >= kDoubts ||
         std::any_of(plan().steps.begin(), plan().steps.end(), [](const Step& step) {
           return step.verb == Verb::RestartControllers || step.verb == Verb::RestoreStore;
         });
}

// Pods that were moved are where they had been, and what runs in the others is stopped as soon as
// their kubelets have heard of it.
bool VolumeChecker::is_restored_lately() const {
  const auto restored = truth().restored_at();
  return restored && now() - *restored <= kCatchUp;
}

// Its Node was deleted under it: it stops what it runs, and nobody waits for that.
bool VolumeChecker::is_stray(const Machine& machine) const {
  return truth().store().find({.resource = "nodes", .space = {}, .name = machine.name}) == nullptr;
}

void VolumeChecker::judge(const std::string& volume, const Machine& one, const Machine& other,
                          bool both_write) {
  const Pair pair{volume, one.name, other.name};
  seen_.insert(pair);
  if (doubled_.contains(pair)) {
    return;
  }
  const std::string what = "volume " + volume + " is written on " + one.name + " while it is " +
                           (both_write ? "" : "attached ") + "on " + other.name;
  if (is_excused(one, now()) || is_excused(other, now())) {
    ++accepted_;
    news_ = what + ", which was cut off alive";
  } else if (is_restored_lately()) {
    ++accepted_;
    news_ = what + ", since the store went back in time";
  } else if (may_be_attached_twice() && (!both_write || is_stray(one) || is_stray(other))) {
    ++accepted_;
    news_ = what + ", which Kubernetes is not certain of";
  } else {
    accuse(rules::kSingleWriter, what);
  }
}

void VolumeChecker::on_change(const Change& change) {
  if (!is_engine(change.actor)) {
    return;
  }
  if (change.key.resource == "nodes") {
    on_released(change);
  } else if (change.key.resource == "volumeattachments" &&
             (change.before == nullptr ||
              text_field(*change.before, {"metadata", "deletionTimestamp"}).empty())) {
    on_detached(change);  // the mark counts: from it on the storage may let go
  }
}

void VolumeChecker::on_detached(const Change& change) {
  const std::string& node = text_field(*change.after, {"spec", "nodeName"});
  const std::string& volume = text_field(*change.after, {"spec", "source", "persistentVolumeName"});
  for (const Object& pod : truth().store().list("pods")) {
    if (text_field(*pod, {"spec", "nodeName"}) == node &&
        claims_volume(truth().store(), *pod, volume)) {
      accuse(rules::kLastConsumer, change.actor + " deleted attachment " + change.key.name +
                                       " while pod " + text_field(*pod, {"metadata", "name"}) +
                                       " of node " + node + " uses it");
    }
  }
}

void VolumeChecker::on_released(const Change& change) {
  if (change.before == nullptr) {
    return;
  }
  const Json& listed = list_field(*change.before, {"status", "volumesInUse"});
  const Json& left = list_field(*change.after, {"status", "volumesInUse"});
  for (const Json& name : listed) {
    if (std::find(left.begin(), left.end(), name) == left.end()) {
      judge_release(change, name.get<std::string>());
    }
  }
}

void VolumeChecker::judge_release(const Change& change, const std::string& name) {
  const std::string& node = change.key.name;
  const std::string what = change.actor + " released " + name + " of node " + node + ", and ";
  if (condition_status(*change.before, "Ready") == "True") {
    accuse(rules::kReleasedLast, what + "the node is Ready");
  }
  const std::string handle = name.substr(name.find('^') + 1);
  const auto published = truth().machines().published.find(handle);
  if (published != truth().machines().published.end() && published->second.contains(node)) {
    accuse(rules::kReleasedLast, what + "the storage has it there");
  }
  const auto is_it = [this, &name](const std::string& volume) {
    const Object found =
        truth().store().find({.resource = "persistentvolumes", .space = {}, .name = volume});
    const auto known = found == nullptr ? std::nullopt : volume_of(*found);
    return known && known->unique_name() == name;
  };
  for (const Object& attachment : truth().store().list("volumeattachments")) {
    if (text_field(*attachment, {"spec", "nodeName"}) == node &&
        is_it(text_field(*attachment, {"spec", "source", "persistentVolumeName"}))) {
      accuse(rules::kReleasedLast, what + "its attachment is there");
    }
  }
  for (const Object& pod : truth().store().list("pods")) {
    if (node_of(*pod) != node || has_ended_by_itself(*pod)) {
      continue;
    }
    const auto volumes =
        volumes_of(*pod, [this](const Key& key) { return truth().store().find(key); });
    if (volumes && std::any_of(volumes->begin(), volumes->end(), [&name](const Volume& volume) {
          return volume.unique_name() == name;
        })) {
      accuse(rules::kReleasedLast, what + "pod " + path_of(*pod) + " uses it");
    }
  }
}

}  // namespace moonfence::sim
