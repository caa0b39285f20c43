#include "sim/volume_checker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "sim/facts.h"
#include "sim/fields.h"
#include "sim/volumes.h"

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
  if (!is_engine(change.actor)) {
    return;
  }
  if (change.key.resource == "volumeattachments") {
    check_detach(change);
  } else if (change.key.resource == "nodes") {
    check_release(change);
  }
}

namespace {

// Of the claims of a pod, those that lead to a volume of which this is true.
template <class Is>
bool uses_volume(const ObjectStore& store, const Json& pod, const Is& is_the_one) {
  const Json* sources = find_field(pod, {"spec", "volumes"});
  return sources != nullptr && sources->is_array() &&
         std::any_of(sources->begin(), sources->end(), [&](const Json& source) {
           const Object claim =
               store.find({.resource = "persistentvolumeclaims",
                           .space = text_field(pod, {"metadata", "namespace"}),
                           .name = text_field(source, {"persistentVolumeClaim", "claimName"})});
           return claim != nullptr && is_the_one(text_field(*claim, {"spec", "volumeName"}));
         });
}

std::string released(const Change& change, const std::string& name) {
  return change.actor + " released " + name + " of node " + change.key.name;
}

}  // namespace

void VolumeChecker::check_detach(const Change& change) const {
  // The mark counts: from it on the storage may let go.
  if (change.before != nullptr &&
      !text_field(*change.before, {"metadata", "deletionTimestamp"}).empty()) {
    return;
  }
  const std::string& node = text_field(*change.after, {"spec", "nodeName"});
  const std::string& volume = text_field(*change.after, {"spec", "source", "persistentVolumeName"});
  for (const Object& pod : truth().store().list("pods")) {
    if (text_field(*pod, {"spec", "nodeName"}) == node &&
        uses_volume(truth().store(), *pod, [&](const auto& name) { return name == volume; })) {
      accuse(rules::kLastConsumer, change.actor + " deleted attachment " + change.key.name +
                                       " while pod " + text_field(*pod, {"metadata", "name"}) +
                                       " of node " + node + " uses it");
    }
  }
}

void VolumeChecker::check_release(const Change& change) const {
  const auto in_use = [](const Object& node) {
    std::set<std::string> names;
    for (const Json& name : list_field(*node, {"status", "volumesInUse"})) {
      names.insert(name.get<std::string>());
    }
    return names;
  };
  const std::string& node = change.key.name;
  const std::set<std::string> left = in_use(change.after);
  for (const std::string& name : in_use(change.before)) {
    if (left.contains(name)) {
      continue;
    }
    const std::string what = released(change, name);
    for (const Object& object : truth().store().list("persistentvolumes")) {
      const auto volume = volume_of(*object);
      if (!volume || volume->unique_name() != name) {
        continue;
      }
      const auto& published = truth().machines().published;
      const auto holders = published.find(volume->handle);
      if (holders != published.end() && holders->second.contains(node)) {
        accuse(rules::kReleaseLast, what + ", which the storage has not let go of");
      }
      if (truth().store().find({.resource = "volumeattachments",
                                .space = {},
                                .name = attachment_name(*volume, node)}) != nullptr) {
        accuse(rules::kReleaseLast, what + ", which is attached");
      }
      for (const Object& pod : truth().store().list("pods")) {
        if (text_field(*pod, {"spec", "nodeName"}) == node &&
            uses_volume(truth().store(), *pod, [&](const auto& claimed) {
              return claimed == volume->persistent_volume;
            })) {
          accuse(rules::kReleaseLast,
                 what + ", which pod " + text_field(*pod, {"metadata", "name"}) + " uses");
        }
      }
    }
  }
}

}  // namespace moonfence::sim
