#pragma once

// IncidentStory is one incident as the status page tells it: what happened to the node, and to each
// pod, line by line, in the words of the audit. Values; the incident book keeps them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/trail.h"
#include "base/names.h"
#include "base/time.h"

namespace moonfence::app {

// How something is to be looked at; never told by colour alone.
enum class Tone { Neutral, Good, Busy, Waiting, Warning, Alarm };

// One audit record, without what the story says already.
struct StoryLine {
  WallTime at{};
  audit::Record::Kind kind = audit::Record::Kind::Verdict;
  audit::Reason reason = audit::Reason::Settled;
  std::string policy = {};
  std::string policy_digest = {};
  std::string action = {};
  std::string attachment = {};
  std::string text = {};
  std::uint32_t attempt = 0;
  Duration took{};
  std::uint32_t times = 1;  // it was told so often in a row
};

struct PodStory {
  PodRef pod;
  Uid uid;
  std::vector<StoryLine> lines;  // in the order of time
  std::uint64_t cut = 0;         // lines that were left out, after the first one
};

struct IncidentStory {
  IncidentId id;
  NodeName node;
  WallTime opened{};
  audit::Reason opened_for = audit::Reason::NodeUnknown;
  std::optional<WallTime> closed;
  audit::Reason closed_for = audit::Reason::Settled;  // if it is closed
  bool recalled = false;  // from the record in the cluster: pods that were left alone are missing
  std::vector<StoryLine> lines;  // of the node, in the order of time
  std::uint64_t cut = 0;
  std::vector<PodStory> pods;  // in the order in which they were first judged
  std::uint64_t cut_pods = 0;  // records about pods that are not among them
};

// How a pod stands: the line that says so, and in a word.
struct PodState {
  const StoryLine* line = nullptr;
  std::string_view word;  // "deleted", "left alone", …
  Tone tone = Tone::Neutral;
};
[[nodiscard]] PodState state_of(const PodStory& pod);

// What a policy said of it at last, beside what came of that; null: nothing in words.
[[nodiscard]] const StoryLine* verdict_on(const PodStory& pod);

// The same of one record.
[[nodiscard]] std::string_view word_of(const StoryLine& line);
[[nodiscard]] Tone tone_of(const StoryLine& line);

struct PodCounts {
  std::uint64_t deleted = 0;       // or gone, or marked
  std::uint64_t would_delete = 0;  // observe
  std::uint64_t not_done = 0;      // refused, failed, uncertain, held
  std::uint64_t waiting = 0;
  std::uint64_t left_alone = 0;
};
[[nodiscard]] PodCounts count_pods(const IncidentStory& story);

}  // namespace moonfence::app
