#include "fence/verify/replacements.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

using audit::Reason;

namespace {

// So many of them, round and round.
template <class Item>
std::vector<Item> some_of(std::vector<Item> all, std::size_t most, std::size_t& next) {
  if (all.size() <= most) {
    return all;
  }
  const std::size_t first = next % all.size();
  next = first + most;
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(most), all.end());
  return all;
}

}  // namespace

void Replacements::deleted(Deleted pod) {
  const auto refuted = refuted_.find(pod.uid);
  const bool is_refuted = refuted != refuted_.end() && !pod.answered && pod.at <= refuted->second;
  if (pod.owner.uid.empty() || is_refuted || !ours_.insert(pod.uid).second) {
    return;
  }
  ++deletions_;
  last_deletion_ = std::max(last_deletion_, pod.at);
  // A replacement that had to be deleted itself: another one takes its place.
  const auto replaced = std::find_if(open_.begin(), open_.end(), [&pod](const Entry& entry) {
    return entry.what.pod == pod.pod || entry.candidate == pod.uid;
  });
  if (replaced != open_.end()) {
    pod.at = replaced->what.at;
    pod.call = replaced->what.call;
    pod.told = pod.told ? pod.told : replaced->what.told;
    replaced->what = std::move(pod);
    replaced->candidate = {};
    return;
  }
  open_.push_back({.what = std::move(pod)});
}

std::vector<Replacements::Question> Replacements::questions() const {
  std::map<Namespace, std::set<std::string>> names;  // "": any
  for (const Entry& entry : open_) {
    names[entry.what.pod.space].insert(entry.what.owner.kind == "StatefulSet" ? entry.what.pod.name
                                                                              : std::string());
  }
  std::vector<Question> out;
  out.reserve(names.size());
  for (const auto& [space, wanted] : names) {
    out.push_back({.space = space, .name = wanted.size() == 1 ? *wanted.begin() : std::string()});
  }
  return out;
}

bool Replacements::is_candidate(const Entry& entry, const NamespacePod& pod) const {
  if (pod.terminating || pod.failed) {
    return false;
  }
  const bool fits =
      pod.ref == entry.what.pod ||
      (entry.what.owner.kind != "StatefulSet" && pod.owner == entry.what.owner.uid &&
       pod.created.value_or(WallTime::max()) + kSlack >= entry.what.at - entry.what.call);
  return fits && !ours_.contains(pod.uid) && !taken_.contains(pod.uid);
}

void Replacements::see(NamespacePod pod, PodSights& seen) const {
  bool is_owned = false;
  bool matters = false;
  bool is_known = false;  // it was deleted, or has the place of one that was
  for (const Entry& entry : open_) {
    is_owned = is_owned || pod.owner == entry.what.owner.uid;
    is_known = is_known || pod.uid == entry.what.uid || pod.ref == entry.what.pod;
    matters = matters || is_known || is_candidate(entry, pod);
  }
  if (is_owned && !pod.terminating && !pod.failed) {
    ++seen.alive[pod.owner];
  }
  const bool ready = pod.ready_since.has_value();
  const std::size_t alike = ready ? seen.ready : seen.pods.size() - seen.ready;
  if (is_known || (matters && alike < kMostKept)) {
    seen.ready += ready ? 1 : 0;
    seen.pods.push_back(std::move(pod));
  }
}

// Those that are Ready first, so that none of them is left over for a pod that waits.
Replacements::Matches Replacements::match(const Sighting& seen) const {
  Matches matches;
  std::set<Uid> given;
  for (const bool ready : {true, false}) {
    for (const Entry& entry : open_) {
      const auto pods = seen.pods.find(entry.what.pod.space);
      if (pods == seen.pods.end() || matches.contains(entry.what.uid)) {
        continue;
      }
      for (const NamespacePod& pod : pods->second.pods) {
        if (pod.ready_since.has_value() == ready && is_candidate(entry, pod) &&
            given.insert(pod.uid).second) {
          matches.emplace(entry.what.uid, &pod);
          break;
        }
      }
    }
  }
  return matches;
}

Replacements::Further Replacements::further(const Sighting& seen, const NodeName& failed) {
  Further further;
  std::set<Uid> asked;
  const Matches matches = match(seen);
  for (const Entry& entry : open_) {
    const auto found = matches.find(entry.what.uid);
    if (found != matches.end()) {
      const NamespacePod& pod = *found->second;
      if (!pod.ready_since &&
          obstacle_of(pod, failed, nullptr).reason == Reason::ReplacementUnattached) {
        further.unattached.push_back(pod);
      }
    } else if (seen.pods.contains(entry.what.pod.space) &&
               !readable_collection(entry.what.owner).empty() &&
               asked.insert(entry.what.owner.uid).second) {
      further.owners.emplace_back(entry.what.pod.space, entry.what.owner);
    }
  }
  further.owners = some_of(std::move(further.owners), kMostOwners, next_owner_);
  further.unattached = some_of(std::move(further.unattached), kMostUnattached, next_unattached_);
  return further;
}

std::vector<Replacements::Finding> Replacements::look(const Sighting& seen, const NodeName& failed,
                                                      WallTime now) {
  std::vector<Finding> news;
  looked_ = true;
  const Matches matches = match(seen);
  std::vector<Entry> open;
  for (Entry& entry : open_) {
    const auto found = matches.find(entry.what.uid);
    const bool stays = !seen.pods.contains(entry.what.pod.space) ||
                       judge(entry, found == matches.end() ? nullptr : found->second, seen, failed,
                             now, news) == Verdict::Keeps;
    if (stays) {
      open.push_back(std::move(entry));
    }
  }
  open_ = std::move(open);
  return news;
}

Replacements::Verdict Replacements::judge(Entry& entry, const NamespacePod* replacement,
                                          const Sighting& seen, const NodeName& failed,
                                          WallTime now, std::vector<Finding>& news) {
  const PodSights& sights = seen.pods.at(entry.what.pod.space);
  const std::vector<NamespacePod>& pods = sights.pods;
  Finding finding;
  finding.pod = entry.what.pod;
  finding.uid = entry.what.uid;
  finding.took = std::max<Duration>(now - entry.what.at, Duration::zero());
  if (replacement != nullptr) {
    if (std::exchange(entry.candidate, replacement->uid) != replacement->uid) {
      entry.storage.reset();
    }
    finding.node = replacement->node;
    finding.replacement = replacement->uid;
    if (replacement->ready_since && replacement->node != failed) {
      taken_.insert(replacement->uid);
      finding.kind = Finding::Kind::Ready;
      if (*replacement->ready_since != WallTime{}) {  // in whole seconds, by its kubelet's clock
        finding.took = std::clamp<Duration>(*replacement->ready_since - entry.what.at,
                                            Duration::zero(), finding.took);
      }
      finding.obstacle = {.reason = Reason::ReplacementReady,
                          .text = "on " + replacement->node.text()};
      news.push_back(std::move(finding));
      return Verdict::Ends;
    }
    entry.obstacle = obstacle_with(entry, *replacement, seen, failed);
  } else {
    const bool is_there = std::any_of(pods.begin(), pods.end(), [&entry](const NamespacePod& pod) {
      return pod.uid == entry.what.uid && !pod.terminating;
    });
    if (is_there && !entry.what.answered) {
      // It was not deleted after all; if it is, by another call, we are told again.
      ours_.erase(entry.what.uid);
      refuted_[entry.what.uid] = entry.what.at;
      return Verdict::Ends;
    }
    const auto owner = seen.owners.find(entry.what.owner.uid);
    if (owner != seen.owners.end() && is_unwanted(entry, sights, owner->second)) {
      finding.kind = Finding::Kind::NotNeeded;
      finding.obstacle = {.reason = Reason::ReplacementNotNeeded,
                          .text = entry.what.owner.kind + " " + entry.what.owner.name +
                                  (owner->second.gone ? " is gone" : " wants no more pods")};
      news.push_back(std::move(finding));
      return Verdict::Ends;
    }
    entry.obstacle = obstacle_without(entry, pods);
  }
  if (finding.took >= kPatience && entry.what.told != entry.obstacle.reason) {
    entry.what.told = entry.obstacle.reason;
    finding.obstacle = entry.obstacle;
    news.push_back(std::move(finding));
  }
  return Verdict::Keeps;
}

// Not every look reads what keeps its volumes: the last word counts.
Obstacle Replacements::obstacle_with(Entry& entry, const NamespacePod& replacement,
                                     const Sighting& seen, const NodeName& failed) {
  const auto storage = seen.storage.find(replacement.uid);
  if (storage != seen.storage.end()) {
    entry.storage = storage->second;
  }
  return obstacle_of(replacement, failed, entry.storage ? &*entry.storage : nullptr);
}

Obstacle Replacements::obstacle_without(const Entry& entry, const std::vector<NamespacePod>& pods) {
  for (const NamespacePod& pod : pods) {
    if (pod.uid == entry.what.uid || (pod.ref == entry.what.pod && pod.terminating)) {
      return {.reason = Reason::PodLingers,
              .text = pod.finalizers.empty() ? "" : "held by " + pod.finalizers};
    }
  }
  return {.reason = Reason::ReplacementAbsent,
          .text = entry.what.owner.kind + " " + entry.what.owner.name};
}

// With a pod that lingers a StatefulSet still wants the name; what is gone wants nothing.
bool Replacements::is_unwanted(const Entry& entry, const PodSights& pods, const OwnerSight& owner) {
  if (owner.gone) {
    return true;
  }
  if (entry.what.owner.kind == "StatefulSet") {
    return !wants_ordinal(owner, entry.what.pod.name);
  }
  const auto alive = pods.alive.find(entry.what.owner.uid);
  const std::size_t has = alive == pods.alive.end() ? 0 : alive->second;
  return owner.replicas && std::cmp_greater_equal(has, *owner.replicas);
}

std::map<Reason, std::size_t> Replacements::obstacles() const {
  std::map<Reason, std::size_t> out;
  for (const Entry& entry : open_) {
    ++out[entry.obstacle.reason];
  }
  return out;
}

std::string Replacements::summary() const {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, open_.size()); ++i) {
    text += (text.empty() ? "" : ", ") + open_[i].what.pod.text();
    text += " (" + std::string(code(open_[i].obstacle.reason)) + ")";
  }
  return open_.size() > kNamed ? text + " and " + std::to_string(open_.size() - kNamed) + " more"
                               : text;
}

}  // namespace moonfence::fence
