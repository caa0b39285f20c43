#pragma once

// IncidentStatus is how an open incident stands at one moment: the one answer that the status page,
// the commands and the metrics print. Values; IncidentDriver makes it, and nobody else says how an
// incident stands.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"

namespace moonfence::fence {

struct IncidentStatus {
  // What the last pass came to, or what keeps one from beginning.
  enum class State {
    UnderWay,   // its pods are judged and deleted, or looked after
    Waits,      // a policy waits for something
    Held,       // a guard, the brake, a person or a policy's word keeps it from going on
    Fails,      // something that is to be done failed, or a policy did; it is tried again
    Verifying,  // nothing is left to do but to wait for replacements
  };
  static constexpr std::array kStates = {State::UnderWay, State::Waits, State::Held, State::Fails,
                                         State::Verifying};

  IncidentId incident = {};
  NodeName node = {};
  WallTime opened{};
  audit::Reason opened_for = audit::Reason::NodeUnknown;
  State state = State::UnderWay;
  std::optional<audit::Reason> reason = std::nullopt;  // why it is not simply under way
  std::string text = {};                               // the same for people, with names
  // When it is looked at again, unless news come sooner; nullopt: a pass runs, or only news count.
  std::optional<Moment> next = std::nullopt;
};

[[nodiscard]] constexpr std::string_view to_string(IncidentStatus::State state) {
  switch (state) {
    case IncidentStatus::State::UnderWay:
      return "under way";
    case IncidentStatus::State::Waits:
      return "waits";
    case IncidentStatus::State::Held:
      return "held";
    case IncidentStatus::State::Fails:
      return "fails";
    case IncidentStatus::State::Verifying:
      break;
  }
  return "verifying";
}

}  // namespace moonfence::fence
