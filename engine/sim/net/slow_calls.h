#pragma once

// Calls of single objects that a server does, only slowly: etcd on a slow disk, a webhook that
// takes its time. What is written is done at the end of that time; a server that was told to give
// up before (`timeout=`) does nothing.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace moonfence::sim {

struct WireRequest;

// What may be slow: "reads", "writes", of these "deletions" and changes of "leases" alone, or
// "all".
[[nodiscard]] std::span<const std::string_view> slow_calls();

class SlowCalls {
 public:
  void add(std::string what, Duration by, Moment until) {
    slow_.push_back({.what = std::move(what), .by = by, .until = until});
  }
  void clear() { slow_.clear(); }
  [[nodiscard]] Duration delay(const WireRequest& request, Moment now) const;

 private:
  struct Slow {
    std::string what;
    Duration by;
    Moment until;
  };
  std::vector<Slow> slow_;
};

// By the query of a request, when its server gives it up; without one after a minute (k/k
// --request-timeout).
[[nodiscard]] Duration server_limit(const WireRequest& request);

}  // namespace moonfence::sim
