#include "fence/sources/source_health.h"

namespace moonfence::fence {

using policy::NodeHealth;

std::vector<SourceHealth::News> SourceHealth::read(const policy::NodeStates& states, Moment now) {
  std::vector<News> news;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto& [node, known] = *entry;
    if (!states.contains(node) && now - known.since >= expiry_) {
      news.push_back({.node = node, .health = known.health, .change = Change::Forgotten});
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
  for (const auto& [node, health] : states) {
    const auto [entry, is_new] = entries_.try_emplace(node, Entry{.health = health, .since = now});
    Entry& known = entry->second;
    const bool expired = now - known.since >= expiry_;
    if (!is_new && known.health == health && !expired) {
      continue;
    }
    const Change change = is_new && !read_once_               ? Change::First
                          : !is_new && known.health == health ? Change::Expired
                                                              : Change::Changed;
    known = {.health = health, .since = now};
    news.push_back({.node = node, .health = health, .change = change});
  }
  read_once_ = true;
  return news;
}

std::optional<NodeHealth> SourceHealth::health(const NodeName& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? std::nullopt : std::optional(found->second.health);
}

std::vector<NodeName> SourceHealth::nodes() const {
  std::vector<NodeName> nodes;
  for (const auto& [node, known] : entries_) {
    nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeName> SourceHealth::failed() const {
  std::vector<NodeName> nodes;
  for (const auto& [node, known] : entries_) {
    if (known.health == NodeHealth::Failed) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace moonfence::fence
