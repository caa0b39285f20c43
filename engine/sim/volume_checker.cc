#include "sim/volume_checker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "sim/fields.h"

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
        writers[volume].insert(name);
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
          judge(volume, machines.by_name.at(one), machines.by_name.at(other));
        }
      }
    }
  }
  doubled_ = seen_;
}

void VolumeChecker::judge(const std::string& volume, const Machine& one, const Machine& other) {
  const Pair pair{volume, one.name, other.name};
  seen_.insert(pair);
  if (doubled_.contains(pair)) {
    return;
  }
  const std::string what =
      "volume " + volume + " is written on " + one.name + " while it is on " + other.name;
  if (is_excused(one, now()) || is_excused(other, now())) {
    ++accepted_;
    news_ = what + ", which was cut off alive";
  } else {
    accuse(rules::kSingleWriter, what);
  }
}

void VolumeChecker::on_change(const Change& change) {
  // The mark counts: from it on the storage may let go.
  if (change.key.resource != "volumeattachments" || !is_engine(change.actor) ||
      (change.before != nullptr &&
       !text_field(*change.before, {"metadata", "deletionTimestamp"}).empty())) {
    return;
  }
  const std::string& node = text_field(*change.after, {"spec", "nodeName"});
  const std::string& volume = text_field(*change.after, {"spec", "source", "persistentVolumeName"});
  const auto uses_volume = [this, &volume](const Json& pod) {
    const Json* sources = find_field(pod, {"spec", "volumes"});
    return sources != nullptr && sources->is_array() &&
           std::any_of(sources->begin(), sources->end(), [&](const Json& source) {
             const Object claim = truth().store().find(
                 {.resource = "persistentvolumeclaims",
                  .space = text_field(pod, {"metadata", "namespace"}),
                  .name = text_field(source, {"persistentVolumeClaim", "claimName"})});
             return claim != nullptr && text_field(*claim, {"spec", "volumeName"}) == volume;
           });
  };
  for (const Object& pod : truth().store().list("pods")) {
    if (text_field(*pod, {"spec", "nodeName"}) == node && uses_volume(*pod)) {
      accuse(rules::kLastConsumer, change.actor + " deleted attachment " + change.key.name +
                                       " while pod " + text_field(*pod, {"metadata", "name"}) +
                                       " of node " + node + " uses it");
    }
  }
}

}  // namespace moonfence::sim
