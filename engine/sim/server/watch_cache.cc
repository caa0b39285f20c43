#include "sim/server/watch_cache.h"

#include <algorithm>

namespace moonfence::sim {

WatchCache::WatchCache(loop::Loop& loop, ObjectStore& store, bool shares_versions)
    : loop_(loop),
      store_(store),
      shares_versions_(shares_versions),
      all_since_(store.version()),
      seen_(store.version()),
      floor_(store.version()) {}

void WatchCache::take(const Change& change, Duration lag) {
  const Moment due = std::max(loop_.now() + lag, pending_.empty() ? Moment{} : pending_.back().due);
  if (!pending_.empty() && pending_.back().due == due) {
    pending_.back().version = change.version;
  } else {
    pending_.push_back({.due = due, .version = change.version});
  }
}

void WatchCache::catch_up() {
  pending_.clear();
  versions_.clear();
  seen_ = all_since_ = floor_ = store_.version();
}

std::int64_t WatchCache::seen() {
  const std::int64_t before = seen_;
  while (!pending_.empty() && pending_.front().due <= loop_.now()) {
    seen_ = pending_.front().version;
    pending_.pop_front();
  }
  for (std::int64_t version = before + 1; version <= seen_; ++version) {
    versions_[store_.change_at(version).key.resource] = version;
  }
  return seen_;
}

std::int64_t WatchCache::version_of(const std::string& resource) {
  const std::int64_t seen_now = seen();
  if (shares_versions_) {
    return seen_now;
  }
  const auto found = versions_.find(resource);
  return found == versions_.end() ? all_since_ : found->second;
}

std::int64_t WatchCache::oldest(std::size_t history) {
  return std::max({floor_, store_.log_start(), seen() - static_cast<std::int64_t>(history)});
}

std::optional<Duration> WatchCache::time_until(const std::string& resource, std::int64_t version) {
  if (version_of(resource) >= version) {
    return Duration::zero();
  }
  std::int64_t at = seen_;
  for (const Pending& each : pending_) {
    while (at < each.version) {
      const bool moves = shares_versions_ || store_.change_at(++at).key.resource == resource;
      at = shares_versions_ ? each.version : at;
      if (moves && at >= version) {
        return each.due - loop_.now();
      }
    }
  }
  return std::nullopt;
}

std::optional<Moment> WatchCache::next_due() const {
  return pending_.empty() ? std::nullopt : std::optional(pending_.front().due);
}

}  // namespace moonfence::sim
