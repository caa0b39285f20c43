#include "app/status/incident_timeline.h"

#include <algorithm>

namespace moonfence::app {
namespace {

bool happened_together(const TimelineEntry& one, const TimelineEntry& other) {
  const StoryLine& first = *one.line;
  const StoryLine& next = *other.line;
  return one.pod != nullptr && other.pod != nullptr && first.kind == next.kind &&
         first.reason == next.reason && first.action == next.action &&
         first.policy == next.policy && next.at - first.at < std::chrono::seconds(1);
}

}  // namespace

std::vector<TimelineEntry> timeline_of(const IncidentStory& story) {
  std::vector<TimelineEntry> all;
  for (const StoryLine& line : story.lines) {
    all.push_back({.line = &line});
  }
  for (const PodStory& pod : story.pods) {
    for (const StoryLine& line : pod.lines) {
      all.push_back({.line = &line, .pod = &pod});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TimelineEntry& one, const TimelineEntry& other) {
                     return one.line->at < other.line->at;
                   });
  std::vector<TimelineEntry> told;
  for (const TimelineEntry& entry : all) {
    // A few kinds of lines alternate while many pods are dealt with at once.
    const auto recent = told.size() < 8 ? told.begin() : told.end() - 8;
    const auto same = std::find_if(recent, told.end(), [&entry](const TimelineEntry& each) {
      return happened_together(each, entry);
    });
    if (same != told.end()) {
      ++same->count;
    } else {
      told.push_back(entry);
    }
  }
  return told;
}

}  // namespace moonfence::app
