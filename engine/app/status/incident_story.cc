#include "app/status/incident_story.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using Kind = audit::Record::Kind;

struct Told {
  std::string_view word;
  Tone tone = Tone::Neutral;
};

Told told_by_verdict(Reason reason) {
  switch (reason) {
    case Reason::PolicyWaits:
    case Reason::PolicyHoldsNode:
    case Reason::NeedsUnread:
      return {.word = "waits", .tone = Tone::Waiting};
    case Reason::PolicyFailed:
    case Reason::PolicyFailing:
    case Reason::GuardFailed:
    case Reason::GuardBroken:
      return {.word = "held", .tone = Tone::Alarm};
    case Reason::PolicyHolds:
    case Reason::ProofMissing:
      return {.word = "held", .tone = Tone::Warning};
    case Reason::PolicyForbids:
      return {.word = "forbidden", .tone = Tone::Warning};
    case Reason::PolicyDeletesPod:
    case Reason::PolicyDeletesPodAndAttachments:
    case Reason::PolicyDeletesAttachments:
      return {.word = "to be deleted", .tone = Tone::Busy};
    default:
      return {.word = "left alone", .tone = Tone::Neutral};
  }
}

Told told_by_outcome(const StoryLine& line) {
  const bool of_pod = line.attachment.empty() && line.action == "delete_pod";
  switch (line.reason) {
    case Reason::Done:
      return {.word = of_pod ? "deleted" : "done", .tone = Tone::Good};
    case Reason::MarkedOnly:
      return {.word = "marked", .tone = Tone::Waiting};
    case Reason::AlreadyGone:
      return {.word = "gone already", .tone = Tone::Good};
    case Reason::Replaced:
      return {.word = "replaced", .tone = Tone::Good};
    case Reason::ReleaseAcknowledged:
      return {.word = "released", .tone = Tone::Good};
    case Reason::Deposed:
      return {.word = "handed over", .tone = Tone::Waiting};
    case Reason::OutcomeLost:
      return {.word = "uncertain", .tone = Tone::Alarm};
    case Reason::NodeChanged:
    case Reason::PodChanged:
    case Reason::ReadingTooOld:
    case Reason::ReleaseOvertaken:
      return {.word = "tried again", .tone = Tone::Waiting};
    default:
      return {.word = "failed", .tone = Tone::Alarm};
  }
}

Told told_by_refusal(Reason reason) {
  switch (reason) {
    case Reason::ModeObserves:
      return {.word = "would be deleted", .tone = Tone::Waiting};
    case Reason::NodeChanged:
    case Reason::ReadingTooOld:
      return {.word = "tried again", .tone = Tone::Waiting};
    default:
      return {.word = "refused", .tone = Tone::Warning};
  }
}

Told told_by_holding(Reason reason) {
  switch (reason) {
    case Reason::TooManyDown:
    case Reason::TooManyInWindow:
    case Reason::DoubtsItself:
    case Reason::ForcedDetachNear:
    case Reason::VolumeLeft:
    case Reason::Unreadable:
    case Reason::ServerSlow:
    case Reason::LeaseUnreadable:
    case Reason::KernelAnswers:
    case Reason::StillFailing:
    case Reason::HoldUnknown:
      return {.word = "held", .tone = Tone::Alarm};
    default:
      return {.word = "held", .tone = Tone::Waiting};
  }
}

Told told_by_closing(Reason reason) {
  switch (reason) {
    case Reason::Unreplaced:
    case Reason::StoreWentBack:
      return {.word = "closed", .tone = Tone::Warning};
    case Reason::Stopping:
    case Reason::SteppedDown:
      return {.word = "handed over", .tone = Tone::Neutral};
    default:
      return {.word = "closed", .tone = Tone::Good};
  }
}

Told told_by_replacement(Reason reason) {
  switch (reason) {
    case Reason::ReplacementReady:
      return {.word = "replaced", .tone = Tone::Good};
    case Reason::ReplacementNotNeeded:
      return {.word = "gone", .tone = Tone::Good};
    default:
      return {.word = "being replaced", .tone = Tone::Waiting};
  }
}

Told told_by(const StoryLine& line) {
  switch (line.kind) {
    case Kind::IncidentOpened:
      return {.word = "opened", .tone = Tone::Busy};
    case Kind::IncidentClosed:
      return told_by_closing(line.reason);
    case Kind::IncidentHeld:
      return told_by_holding(line.reason);
    case Kind::Verdict:
      return told_by_verdict(line.reason);
    case Kind::Refusal:
      return told_by_refusal(line.reason);
    case Kind::Intent:
      return {.word = "begun", .tone = Tone::Busy};
    case Kind::Outcome:
      return told_by_outcome(line);
    case Kind::Replacement:
      return told_by_replacement(line.reason);
  }
  return {};
}

// What is done about its volumes, or said about it because it was dealt with, is not the pod's own
// state.
bool is_about_the_pod(const StoryLine& line) {
  return line.attachment.empty() && line.action != "release_volume" &&
         line.kind != Kind::IncidentHeld && line.reason != Reason::HandledBefore;
}

// Of several policies' verdicts the one that keeps the pod from being deleted says how it stands.
int weight(Tone tone) {
  switch (tone) {
    case Tone::Alarm:
      return 4;
    case Tone::Warning:
      return 3;
    case Tone::Waiting:
      return 2;
    case Tone::Busy:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::string_view word_of(const StoryLine& line) {
  return told_by(line).word;
}

Tone tone_of(const StoryLine& line) {
  return told_by(line).tone;
}

PodState state_of(const PodStory& pod) {
  const StoryLine* found = nullptr;
  for (auto line = pod.lines.rbegin(); line != pod.lines.rend(); ++line) {
    if (!is_about_the_pod(*line)) {
      continue;
    }
    if (found == nullptr) {
      found = &*line;
    }
    if (found->kind != Kind::Verdict || line->kind != Kind::Verdict) {
      break;
    }
    if (weight(tone_of(*line)) > weight(tone_of(*found))) {
      found = &*line;
    }
  }
  if (found == nullptr && !pod.lines.empty()) {
    found = &pod.lines.back();
  }
  return found == nullptr
             ? PodState{.line = nullptr, .word = "unknown", .tone = Tone::Neutral}
             : PodState{.line = found, .word = word_of(*found), .tone = tone_of(*found)};
}

const StoryLine* verdict_on(const PodStory& pod) {
  for (auto line = pod.lines.rbegin(); line != pod.lines.rend(); ++line) {
    const bool says = line->kind == Kind::Verdict || line->kind == Kind::Intent;
    if (says && !line->text.empty() && is_about_the_pod(*line)) {
      return &*line;
    }
  }
  return nullptr;
}

PodCounts count_pods(const IncidentStory& story) {
  PodCounts counts;
  for (const PodStory& pod : story.pods) {
    const PodState state = state_of(pod);
    if (state.line == nullptr) {
      continue;
    }
    if (state.line->kind == Kind::Refusal && state.line->reason == Reason::ModeObserves) {
      ++counts.would_delete;
    } else if (state.tone == Tone::Good || state.word == "marked" ||
               state.line->kind == Kind::Replacement) {  // it was deleted, whatever keeps the next
      ++counts.deleted;
    } else if (state.tone == Tone::Alarm || state.tone == Tone::Warning) {
      ++counts.not_done;
    } else if (state.tone == Tone::Neutral) {
      ++counts.left_alone;
    } else {
      ++counts.waiting;
    }
  }
  return counts;
}

}  // namespace moonfence::app
