#pragma once

// FailoverTimes turns the records of incidents into how long each stage of a failover took:
//
//   detect    Ready changed              ──▶ the incident was opened
//   confirm   the incident was opened    ──▶ the first verdict
//   decide    a pod is to be deleted     ──▶ the intent is recorded
//   delete    the intent                 ──▶ the pod is deleted, or marked
//   detached  its attachment was deleted ──▶ the storage has let go
//   replaced  the pod was deleted        ──▶ its replacement is Ready
//
// It remembers open incidents only; what it remembers of one ends with it.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "audit/trail.h"

namespace moonfence::app {

class FailoverTimes {
 public:
  using Observe = std::function<void(std::string_view stage, Duration took)>;
  explicit FailoverTimes(Observe observe) : observe_(std::move(observe)) {}

  // `down_for`: how long the record's node has not been Ready by Kubernetes' own stamp, if that is
  // known; its resolution is a second.
  void note(const audit::Record& record, Moment now, const std::optional<Duration>& down_for);

  // Every stage, in the order of a failover.
  [[nodiscard]] static std::span<const std::string_view> stages();

 private:
  struct Open {
    Moment opened{};
    bool confirmed = false;
    // Pods that are to be deleted, by whom: what observes wants may come long before what enforces.
    std::map<std::pair<Uid, std::string>, Moment> wanted;
  };
  void note_verdict(const audit::Record& record, Moment now);
  void note_outcome(const audit::Record& record) const;

  Observe observe_;
  std::map<IncidentId, Open> open_;
};

}  // namespace moonfence::app
