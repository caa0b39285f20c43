#pragma once

// IncidentBook remembers the incidents for the status page: those under way and the newest of the
// past, told by audit records as they are written, and by the records that earlier leaders left in
// the cluster. It decides nothing and nothing rests on it. What it holds is bounded, whatever
// comes; what was left out is counted.
//
// A story that was handed out is never changed: the next line goes into a copy.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "app/status/incident_story.h"
#include "fence/record/incident_record.h"

namespace moonfence::app {

struct BookLimits {
  std::size_t open = 100;
  std::size_t past = 50;
  std::size_t pods = 250;  // of an incident
  std::size_t lines = 40;  // of an incident, without its pods'
  std::size_t pod_lines = 10;
  std::size_t text = 300;          // bytes of each text
  std::size_t all_lines = 20'000;  // of all stories: some 15 MB at most
};

class IncidentBook {
 public:
  using Story = std::shared_ptr<const IncidentStory>;

  explicit IncidentBook(BookLimits limits = {}) : limits_(limits) {}
  IncidentBook(const IncidentBook&) = delete;
  IncidentBook& operator=(const IncidentBook&) = delete;

  void hear(const audit::Record& record, WallTime at);
  // A past incident, as its record in the cluster tells it; nothing new for one that is known.
  void recall(const fence::IncidentRecord& record);

  // Newest first.
  [[nodiscard]] std::vector<Story> under_way();
  [[nodiscard]] std::vector<Story> past();

 private:
  struct Entry {
    std::shared_ptr<IncidentStory> story;
    bool handed_out = false;
  };
  [[nodiscard]] IncidentStory* writable(const IncidentId& id);
  void open(const audit::Record& record, WallTime at);
  void close(IncidentStory& story, const audit::Record& record, WallTime at);
  void tell(IncidentStory& story, const audit::Record& record, const StoryLine& line);
  void recall(IncidentStory& story, const fence::IncidentRecord::Step& step);
  bool add(std::vector<StoryLine>& lines, std::uint64_t& cut, const StoryLine& line,
           std::size_t limit);
  [[nodiscard]] PodStory* pod_of(IncidentStory& story, const PodRef& pod, const Uid& uid);
  [[nodiscard]] std::vector<Story> hand_out(bool closed);
  void make_room();
  [[nodiscard]] StoryLine cut_to_size(StoryLine line) const;

  const BookLimits limits_;
  std::map<IncidentId, Entry> entries_;
  std::size_t lines_ = 0;  // of all stories
};

}  // namespace moonfence::app
