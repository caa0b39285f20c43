#pragma once

// What the display of incidents (fence/display) needs of the engine.

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "app/status/incident_story.h"
#include "app/status/status_board.h"
#include "base/names.h"
#include "base/time.h"
#include "fence/act/guarded_call.h"
#include "fence/display/incident_display.h"
#include "fence/incident/incidents_by_signal.h"

namespace moonfence::app {

class DisplayHost final : public fence::IncidentDisplay::Host {
 public:
  // All that is referred to must outlive it.
  DisplayHost(const fence::IncidentsBySignal& incidents, const fence::GuardedCall& actions,
              StatusBoard& board, std::function<WallTime()> now)
      : incidents_(incidents), actions_(actions), board_(board), now_(std::move(now)) {}

  [[nodiscard]] std::vector<fence::IncidentStatus> incidents() const override {
    return incidents_.incident_statuses();
  }
  // As the status page counts them.
  [[nodiscard]] std::map<IncidentId, fence::JudgedPods> judged() const override {
    std::map<IncidentId, fence::JudgedPods> all;
    const auto snapshot = board_.read();
    if (snapshot == nullptr) {
      return all;
    }
    for (const IncidentBook::Story& story : snapshot->under_way) {
      const PodCounts counts = count_pods(*story);
      all[story->id] = {.judged = story->pods.size(),
                        .waiting = counts.waiting,
                        .left_alone = counts.left_alone,
                        .would_delete = counts.would_delete};
    }
    return all;
  }
  [[nodiscard]] bool is_acting() const override { return actions_.in_flight() > 0; }
  [[nodiscard]] WallTime now() const override { return now_(); }

 private:
  const fence::IncidentsBySignal& incidents_;
  const fence::GuardedCall& actions_;
  StatusBoard& board_;
  const std::function<WallTime()> now_;
};

}  // namespace moonfence::app
