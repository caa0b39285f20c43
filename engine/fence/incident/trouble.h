#pragma once

// Trouble is how long an open incident has been held or has failed: whether somebody has to look.
// It is one rule for all who say so (fence/display, app/webhook). An incident that is out of it for
// a moment, as while a pass runs, is in it still. Pure: time comes in.

#include <optional>

#include "base/time.h"
#include "fence/incident/incident_status.h"

namespace moonfence::fence {

class Trouble {
 public:
  // Held or failing for so long, somebody has to look.
  static constexpr Duration kStalled = std::chrono::minutes(1);
  // And out of that for so long, nobody has.
  static constexpr Duration kCalm = std::chrono::seconds(5);

  // `state`: nullopt, nothing is known of it. `is_closed`: it is over.
  void follow(std::optional<IncidentStatus::State> state, bool is_closed, Moment now) {
    if (state && is_troubled(*state)) {
      since_ = since_.value_or(now);
      calm_.reset();
      return;
    }
    calm_ = calm_.value_or(now);
    const bool is_over = is_closed || state == IncidentStatus::State::Verifying;
    if (is_over || now - *calm_ >= kCalm) {
      since_.reset();
    }
  }
  [[nodiscard]] bool is_stalled(Moment now) const { return since_ && now - *since_ >= kStalled; }

  [[nodiscard]] static bool is_troubled(IncidentStatus::State state) {
    return state == IncidentStatus::State::Held || state == IncidentStatus::State::Fails;
  }

 private:
  std::optional<Moment> since_;  // it is held or fails
  std::optional<Moment> calm_;   // it is not
};

}  // namespace moonfence::fence
