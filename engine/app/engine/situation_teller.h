#pragma once

// SituationTeller writes what the status page shows into ConfigMap moonfence-status, for whoever
// asks the cluster (`moonfence status`).

#include <chrono>
#include <optional>

#include <nlohmann/json.hpp>

#include "app/policies/policy_feed.h"
#include "app/status/status_snapshot.h"

namespace moonfence::app {

class SituationTeller {
 public:
  // It is written this long after it is new, and at the latest then; that a node is looked at again
  // at another time is no more than that.
  static constexpr Duration kPause = std::chrono::seconds(2);
  static constexpr Duration kLimit = std::chrono::seconds(5);

  // Telling must not compete with doing, which is mostly over when the news is two seconds old;
  // when no incident is open there is nothing to do. `acts`: something has left and is not
  // answered.
  void tell(const StatusSnapshot& snapshot, bool acts, Moment now, PolicyFeed& feed);

 private:
  nlohmann::ordered_json told_ = nlohmann::ordered_json::object();  // last
  std::optional<Moment> new_since_;  // since when there is something else to tell
};

}  // namespace moonfence::app
