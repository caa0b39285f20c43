#pragma once

// One incident as a single line of time: what happened to the node, and between it what happened to
// the pods, those to which the same happened within a second taken together. Pure.

#include <vector>

#include "app/status/incident_story.h"

namespace moonfence::app {

struct TimelineEntry {
  const StoryLine* line = nullptr;  // the first of those taken together; never null
  const PodStory* pod = nullptr;    // of the first; null: it happened to the node
  std::uint64_t count = 1;          // to so many pods
};

// Refers to the story.
[[nodiscard]] std::vector<TimelineEntry> timeline_of(const IncidentStory& story);

}  // namespace moonfence::app
