#pragma once

// IncidentEvent is one thing that is told of an incident, as CloudEvents 1.0 in structured mode
// (docs/webhook.md). It has names, numbers, times and the words of docs/reasons.md; nothing that a
// policy, an object or a server said is in it. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/settings/settings.h"
#include "audit/reason.h"
#include "base/names.h"
#include "base/time.h"

namespace moonfence::app {

// Bytes of one, whatever is in it: each of its parts is bounded.
constexpr std::size_t kLongestEvent = std::size_t{16} << 10U;
constexpr std::string_view kEventType = "application/cloudevents+json; charset=utf-8";

// As the status page counts them.
struct EventPods {
  std::uint64_t judged = 0;
  std::uint64_t deleted = 0;
  std::uint64_t not_deleted = 0;  // refused, failed or uncertain
  std::uint64_t would_delete = 0;
  std::uint64_t waiting = 0;
  std::uint64_t left_alone = 0;
};

struct IncidentEvent {
  IncidentId incident = {};
  NodeName node = {};
  IncidentPhase phase = IncidentPhase::Opened;
  // Why it was opened, acts, needs somebody or is over.
  audit::Reason reason = audit::Reason::Settled;
  // Of Attention: when this trouble was first told. The same reason may come again, also after a
  // change of leader, and must not pass for a double. Absent where it can come only once.
  std::optional<WallTime> trouble = {};
  WallTime at{};
  std::optional<WallTime> opened = {};
  std::optional<audit::Reason> opened_for = {};
  std::optional<Duration> took = {};  // of Settled: since it was opened
  std::optional<EventPods> pods = {};
  bool enforces = false;  // policies in force may act; else they observe
};

[[nodiscard]] std::string_view to_string(IncidentPhase phase);  // "opened"

// The same for the same event of the same incident, whoever tells it: receivers drop doubles by it.
[[nodiscard]] std::string id_of(const IncidentEvent& event);

// `source`: of CloudEvents, which cluster tells it.
[[nodiscard]] std::string cloud_event(const IncidentEvent& event, const std::string& source);

}  // namespace moonfence::app
