#include "app/status/incident_book.h"

#include <algorithm>
#include <utility>

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;
using Kind = Record::Kind;

StoryLine line_of(const Record& record, WallTime at) {
  return {.at = at,
          .kind = record.kind,
          .reason = record.reason,
          .policy = record.policy,
          .policy_digest = record.policy_digest,
          .action = record.action,
          .attachment = record.attachment,
          .text = record.text,
          .attempt = record.attempt,
          .took = record.took};
}

bool says_the_same(const StoryLine& one, const StoryLine& other) {
  return one.kind == other.kind && one.reason == other.reason && one.text == other.text &&
         one.policy == other.policy && one.action == other.action &&
         one.attachment == other.attachment && one.attempt == other.attempt;
}

// Cuts at a character's beginning.
void cut(std::string& text, std::size_t limit) {
  if (text.size() <= limit) {
    return;
  }
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  text.resize(end);
  text += "…";
}

std::size_t lines_in(const IncidentStory& story) {
  std::size_t all = story.lines.size();
  for (const PodStory& pod : story.pods) {
    all += pod.lines.size();
  }
  return all;
}

struct Meant {
  Reason reason = Reason::PolicyDeletesPod;
  const char* action = "";
};
Meant meant_by(fence::IncidentRecord::Step::Kind kind) {
  using Step = fence::IncidentRecord::Step;
  switch (kind) {
    case Step::Kind::DeletePod:
      return {.reason = Reason::PolicyDeletesPod, .action = "delete_pod"};
    case Step::Kind::DeleteAttachment:
      return {.reason = Reason::PolicyDeletesAttachments, .action = "delete_attachment"};
    case Step::Kind::TaintNode:
      return {.reason = Reason::SetsOutOfService, .action = "taint_out_of_service"};
  }
  return {};
}

StoryLine planned_line(const fence::IncidentRecord::Step& step) {
  const Meant meant = meant_by(step.kind);
  return {.at = step.planned,
          .kind = Kind::Intent,
          .reason = meant.reason,
          .policy = step.policy,
          .policy_digest = step.policy_digest,
          .action = meant.action,
          .attachment = step.attachment,
          .text = step.why,
          .attempt = 0,
          .took = {}};
}

std::optional<StoryLine> ended_line(const fence::IncidentRecord::Step& step) {
  if (!step.outcome) {
    return std::nullopt;
  }
  StoryLine line = planned_line(step);
  line.text.clear();
  line.kind = step.ended ? Kind::Outcome : Kind::Refusal;
  line.reason = *step.outcome;
  line.at = step.ended.value_or(step.sent.value_or(step.planned));
  line.attempt = step.calls;
  if (step.ended && step.sent) {
    line.took = *step.ended - *step.sent;
  }
  return line;
}

}  // namespace

void IncidentBook::hear(const Record& record, WallTime at) {
  if (record.incident.empty()) {
    return;
  }
  if (record.kind == Kind::IncidentOpened) {
    open(record, at);
  }
  IncidentStory* story = writable(record.incident);
  if (story == nullptr) {
    return;
  }
  tell(*story, record, cut_to_size(line_of(record, at)));
  if (record.kind == Kind::IncidentClosed) {
    close(*story, record, at);
  }
  make_room();
}

// One that another leader began may be known from before.
void IncidentBook::open(const Record& record, WallTime at) {
  if (IncidentStory* known = writable(record.incident)) {
    known->closed.reset();
    return;
  }
  const auto open = std::count_if(entries_.begin(), entries_.end(), [](const auto& each) {
    return !each.second.story->closed.has_value();
  });
  if (static_cast<std::size_t>(open) >= limits_.open) {
    return;
  }
  IncidentStory story;
  story.id = record.incident;
  story.node = record.node;
  story.opened = at;
  story.opened_for = record.reason;
  entries_[record.incident] = {.story = std::make_shared<IncidentStory>(std::move(story))};
}

void IncidentBook::close(IncidentStory& story, const Record& record, WallTime at) {
  story.closed = at;
  story.closed_for = record.reason;
}

void IncidentBook::tell(IncidentStory& story, const Record& record, const StoryLine& line) {
  if (!record.pod) {
    add(story.lines, story.cut, line, limits_.lines);
    return;
  }
  PodStory* pod = pod_of(story, *record.pod, record.pod_uid);
  if (pod == nullptr || !add(pod->lines, pod->cut, line, limits_.pod_lines)) {
    ++story.cut_pods;
  }
}

PodStory* IncidentBook::pod_of(IncidentStory& story, const PodRef& pod, const Uid& uid) {
  const auto found = std::find_if(
      story.pods.begin(), story.pods.end(),
      [&pod, &uid](const PodStory& each) { return each.uid == uid && each.pod == pod; });
  if (found != story.pods.end()) {
    return &*found;
  }
  if (story.pods.size() >= limits_.pods || lines_ >= limits_.all_lines) {
    return nullptr;
  }
  story.pods.push_back({.pod = pod, .uid = uid, .lines = {}});
  return &story.pods.back();
}

// The first line stays: it says how it began. False: there was no room at all.
bool IncidentBook::add(std::vector<StoryLine>& lines, std::uint64_t& cut, const StoryLine& line,
                       std::size_t limit) {
  if (!lines.empty() && says_the_same(lines.back(), line)) {
    lines.back().at = line.at;
    ++lines.back().times;
    return true;
  }
  const bool full = lines.size() >= limit || lines_ >= limits_.all_lines;
  if (full && lines.size() < 2) {
    ++cut;
    return false;
  }
  if (full) {
    lines.erase(lines.begin() + 1);
    --lines_;
    ++cut;
  }
  lines.push_back(line);
  ++lines_;
  return true;
}

StoryLine IncidentBook::cut_to_size(StoryLine line) const {
  for (std::string* text : {&line.text, &line.policy, &line.attachment}) {
    cut(*text, limits_.text);
  }
  return line;
}

void IncidentBook::recall(const fence::IncidentRecord& record) {
  if (!record.closed || entries_.contains(record.id)) {
    return;
  }
  IncidentStory story;
  story.id = record.id;
  story.node = record.node;
  story.opened = record.opened;
  story.opened_for = record.opened_for;
  story.closed = record.closed->at;
  story.closed_for = record.closed->reason;
  story.recalled = true;
  add(story.lines, story.cut,
      {.at = story.opened, .kind = Kind::IncidentOpened, .reason = story.opened_for},
      limits_.lines);
  for (const fence::IncidentRecord::Step& step : record.steps) {
    recall(story, step);
  }
  add(story.lines, story.cut,
      {.at = *story.closed,
       .kind = Kind::IncidentClosed,
       .reason = story.closed_for,
       .took = *story.closed - story.opened},
      limits_.lines);
  entries_[record.id] = {.story = std::make_shared<IncidentStory>(std::move(story))};
  make_room();
}

void IncidentBook::recall(IncidentStory& story, const fence::IncidentRecord::Step& step) {
  const StoryLine planned = cut_to_size(planned_line(step));
  const auto ended = ended_line(step);
  if (step.kind == fence::IncidentRecord::Step::Kind::TaintNode) {
    if (add(story.lines, story.cut, planned, limits_.lines) && ended) {
      add(story.lines, story.cut, cut_to_size(*ended), limits_.lines);
    }
    return;
  }
  PodStory* pod = pod_of(story, step.pod, step.pod_uid);
  if (pod == nullptr || !add(pod->lines, pod->cut, planned, limits_.pod_lines)) {
    ++story.cut_pods;
  } else if (ended) {
    add(pod->lines, pod->cut, cut_to_size(*ended), limits_.pod_lines);
  }
}

IncidentStory* IncidentBook::writable(const IncidentId& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return nullptr;
  }
  Entry& entry = found->second;
  if (entry.handed_out) {
    entry.story = std::make_shared<IncidentStory>(*entry.story);
    entry.handed_out = false;
  }
  return entry.story.get();
}

void IncidentBook::make_room() {
  for (;;) {
    std::size_t past = 0;
    auto oldest = entries_.end();
    for (auto each = entries_.begin(); each != entries_.end(); ++each) {
      if (!each->second.story->closed) {
        continue;
      }
      ++past;
      if (oldest == entries_.end() || each->second.story->closed < oldest->second.story->closed) {
        oldest = each;
      }
    }
    const bool too_much = past > limits_.past || (lines_ >= limits_.all_lines && past > 1);
    if (!too_much) {
      return;
    }
    lines_ -= lines_in(*oldest->second.story);
    entries_.erase(oldest);
  }
}

std::vector<IncidentBook::Story> IncidentBook::hand_out(bool closed) {
  std::vector<Story> all;
  for (auto& [id, entry] : entries_) {
    if (entry.story->closed.has_value() == closed) {
      entry.handed_out = true;
      all.push_back(entry.story);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Story& one, const Story& other) {
    return one->opened > other->opened;
  });
  return all;
}

std::vector<IncidentBook::Story> IncidentBook::under_way() {
  return hand_out(false);
}

std::vector<IncidentBook::Story> IncidentBook::past() {
  return hand_out(true);
}

}  // namespace moonfence::app
