#pragma once

// WatchCache is what one API server knows of the store without asking it: everything up to some
// moment ago. As in kube-apiserver each resource has a version of its own there, which only that
// resource's changes move, unless `shares_versions`.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

class WatchCache {
 public:
  WatchCache(loop::Loop& loop, ObjectStore& store, bool shares_versions);
  WatchCache(const WatchCache&) = delete;
  WatchCache& operator=(const WatchCache&) = delete;

  // A change that will be seen after `lag`, and after all earlier ones.
  void take(const Change& change, Duration lag);
  // Everything in the store is seen, and the history begins here (a restart).
  void catch_up();
  // The history begins here.
  void compact() { floor_ = seen(); }

  // The version of the newest change that is seen now.
  [[nodiscard]] std::int64_t seen();
  // The version that the cache of one resource has.
  [[nodiscard]] std::int64_t version_of(const std::string& resource);
  // The oldest version that a watch can start from, when `history` changes are kept.
  [[nodiscard]] std::int64_t oldest(std::size_t history);
  // How long until the resource's cache reaches `version`; nothing when no change that has been
  // made will take it there.
  [[nodiscard]] std::optional<Duration> time_until(const std::string& resource,
                                                   std::int64_t version);
  // When the next change is seen; nothing when all are.
  [[nodiscard]] std::optional<Moment> next_due() const;

 private:
  struct Pending {
    Moment due{};
    std::int64_t version = 0;
  };

  loop::Loop& loop_;
  ObjectStore& store_;
  const bool shares_versions_;
  std::deque<Pending> pending_;
  std::map<std::string, std::int64_t, std::less<>> versions_;  // where above all_since_
  std::int64_t all_since_;                                     // every resource's cache has it
  std::int64_t seen_;
  std::int64_t floor_;
};

}  // namespace moonfence::sim
