#include "fence/read/pod_news.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"
#include "kube/wire/list_plan.h"

namespace moonfence::fence {

PodSight sight_of(const nlohmann::json& pod) {
  kube::Fields fields(pod);
  std::string text;
  if (const auto* metadata = fields.object({"metadata"})) {
    for (const char* key : {"deletionTimestamp", "labels", "annotations", "finalizers"}) {
      const auto found = metadata->find(key);
      text += found == metadata->end() ? std::string() : kube::to_text(*found);
      text += '\n';
    }
  }
  return {.uid = Uid(fields.string({"metadata", "uid"})),
          .space = Namespace(fields.string({"metadata", "namespace"})),
          .version = ResourceVersion(fields.string({"metadata", "resourceVersion"})),
          .mark = std::hash<std::string>()(text)};
}

// What was read later than this, or looks the same.
bool PodNews::is_known(const PodSight& pod) const {
  const auto found = read_.find(pod.uid);
  if (found == read_.end()) {
    return false;
  }
  const auto order = kube::compare_versions(pod.version, found->second.version);
  return found->second.mark == pod.mark || (order && *order != std::strong_ordering::greater);
}

void PodNews::read(std::map<Uid, PodSight> pods) {
  read_ = std::move(pods);
  passing_ = false;
  std::erase_if(news_, [this](const auto& entry) {
    const auto& [uid, pod] = entry;
    return pod ? is_known(*pod) : !read_.contains(uid);
  });
}

void PodNews::seen(const PodSight& pod) {
  if (!is_known(pod)) {
    news_.insert_or_assign(pod.uid, pod);
  }
}

void PodNews::gone(const Uid& uid) {
  // The pass that is under way may have listed one that the one before had not.
  if (passing_ || read_.contains(uid)) {
    news_.insert_or_assign(uid, std::nullopt);
  } else {
    news_.erase(uid);
  }
}

void PodNews::listed(const Namespace& space, const std::set<Uid>& uids) {
  for (const auto& [uid, pod] : read_) {
    if ((space.empty() || pod.space == space) && !uids.contains(uid)) {
      gone(uid);
    }
  }
}

std::optional<Moment> PodNews::due() const {
  return news_.empty() ? std::nullopt : std::optional(next_);
}

void PodNews::rang(Moment now) {
  pause_ = now - last_ > kQuiet
               ? kFirstPause
               : std::clamp(2 * pause_, Duration(kFirstPause), Duration(kLongestPause));
  last_ = now;
  news_.clear();
  passing_ = true;
  next_ = now + pause_;
}

}  // namespace moonfence::fence
