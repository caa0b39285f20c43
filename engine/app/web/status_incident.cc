#include "app/web/status_incident.h"

#include <algorithm>
#include <vector>

#include "app/status/incident_timeline.h"
#include "app/status/status_words.h"

namespace moonfence::app {
namespace {

using Kind = audit::Record::Kind;

// A story has some dozens of entries when pods are taken together; more is a fault that repeats.
constexpr std::size_t kMaxEntries = 100;
// A name of so many characters is kept on one line where there is room for it.
constexpr std::size_t kUnbroken = 40;

Tone tone_of(const fence::IncidentStatus& incident_status) {
  switch (incident_status.state) {
    case fence::IncidentStatus::State::UnderWay:
      return Tone::Busy;
    case fence::IncidentStatus::State::Waits:
    case fence::IncidentStatus::State::Verifying:
      return Tone::Waiting;
    case fence::IncidentStatus::State::Held:
      return incident_status.reason
                 ? tone_of(StoryLine{.kind = Kind::IncidentHeld, .reason = *incident_status.reason})
                 : Tone::Waiting;
    case fence::IncidentStatus::State::Fails:
      break;
  }
  return Tone::Alarm;
}

Tone tone_of(const StatusView& view, const IncidentStory& story) {
  if (story.closed) {
    return tone_of(StoryLine{.kind = Kind::IncidentClosed, .reason = story.closed_for});
  }
  const StatusSnapshot::Stand* stand = view.snapshot.stand_of(story.id);
  return stand == nullptr ? Tone::Busy : tone_of(stand->incident_status);
}

std::string_view word_of(const StatusView& view, const IncidentStory& story) {
  if (story.closed) {
    return word_of(StoryLine{.kind = Kind::IncidentClosed, .reason = story.closed_for});
  }
  const StatusSnapshot::Stand* stand = view.snapshot.stand_of(story.id);
  return to_string(stand == nullptr ? fence::IncidentStatus::State::UnderWay
                                    : stand->incident_status.state);
}

std::string_view action_words(const std::string& action) {
  if (action == "fail_pod") {
    return "phase Failed";
  }
  if (action == "delete_attachment") {
    return "volume attachment";
  }
  if (action == "release_volume") {
    return "release of the volume";
  }
  if (action == "set_quarantine") {
    return "our taint on the node";
  }
  if (action == "taint_out_of_service") {
    return "out-of-service on the node";
  }
  return action == "lift_quarantine" ? std::string_view("our taint off the node")
                                     : std::string_view();
}

// What a line says beside its time and its word.
Html line_body(const StatusView& view, const StoryLine& line) {
  Html html;
  html << reason_link(view, line.reason);
  if (const std::string_view action = action_words(line.action); !action.empty()) {
    html << " <span class=\"muted\">" << action << "</span>";
  }
  if (!line.attachment.empty()) {
    html << " <code>" << line.attachment << "</code>";
  }
  if (!line.policy.empty()) {
    html << " <span class=\"muted\">policy</span> <code>" << line.policy << "</code>";
  }
  if (line.took > Duration::zero()) {
    html << " <span class=\"muted\">after " << span_text(line.took) << "</span>";
  }
  if (line.attempt > 1) {
    html << " <span class=\"muted\">attempt " << line.attempt << "</span>";
  }
  if (line.times > 1) {
    html << " <span class=\"muted\">" << line.times << " times</span>";
  }
  if (!line.text.empty()) {
    html << " <span class=\"said\">" << line.text << "</span>";
  }
  return html;
}

void timeline(Html& html, const StatusView& view, const IncidentStory& story) {
  const std::vector<TimelineEntry> all = timeline_of(story);
  const std::size_t skipped = all.size() > kMaxEntries ? all.size() - kMaxEntries : 0;
  html << "<ol class=\"timeline\">\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && i <= skipped) {  // the first one stays
      if (i == skipped) {
        html << "<li class=\"muted\">and " << skipped << " more entries</li>\n";
      }
      continue;
    }
    const TimelineEntry& entry = all[i];
    html << "<li>" << exact_time_html(entry.line->at, view.now) << " "
         << badge(tone_of(*entry.line), word_of(*entry.line)) << " ";
    if (entry.count > 1) {
      html << "<strong>" << entry.count << " pods</strong> ";
    } else if (entry.pod != nullptr) {
      html << "<code>" << entry.pod->pod.text() << "</code> ";
    }
    html << line_body(view, *entry.line) << "</li>\n";
  }
  html << "</ol>\n";
  if (story.cut > 0) {
    html << "<p class=\"more\">and " << story.cut
         << " more lines between the first and the others; the audit log has them.</p>\n";
  }
}

// Those that need somebody first, those that were left alone last.
std::vector<const PodStory*> by_urgency(const IncidentStory& story) {
  std::vector<const PodStory*> pods;
  for (const PodStory& pod : story.pods) {
    pods.push_back(&pod);
  }
  std::stable_sort(pods.begin(), pods.end(), [](const PodStory* one, const PodStory* other) {
    return state_of(*one).tone > state_of(*other).tone;
  });
  return pods;
}

void pod_row(Html& html, const StatusView& view, const PodStory& pod, bool with_steps) {
  const PodState state = state_of(pod);
  html << "<tr><th scope=\"row\" data-label=\"Pod\"><span class=\"muted\">" << pod.pod.space.text()
       << "/</span><wbr>";
  if (pod.pod.name.size() <= kUnbroken) {
    html << "<span class=\"whole\">" << pod.pod.name << "</span>";
  } else {
    html << pod.pod.name;
  }
  html << "</th><td data-label=\"State\">" << badge(state.tone, state.word)
       << "</td><td data-label=\"Why\">";
  if (state.line != nullptr) {
    html << line_body(view, *state.line);
    const StoryLine* verdict = verdict_on(pod);
    if (verdict != nullptr && verdict->text != state.line->text) {
      html << " <span class=\"said\">" << verdict->text << "</span>";
    }
  }
  if (with_steps && pod.lines.size() + pod.cut > 1) {
    html << "<details><summary>" << counted(pod.lines.size() + pod.cut, "step")
         << "</summary><ol class=\"timeline\">\n";
    for (const StoryLine& line : pod.lines) {
      html << "<li>" << exact_time_html(line.at, view.now) << " "
           << badge(tone_of(line), word_of(line)) << " " << line_body(view, line) << "</li>\n";
    }
    html << "</ol>";
    if (pod.cut > 0) {
      html << "<p class=\"more\">and " << pod.cut << " more after the first</p>";
    }
    html << "</details>";
  }
  html << "</td><td data-label=\"Since\">";
  if (state.line != nullptr) {
    html << aged_time_html(state.line->at, view.now);
  }
  html << "</td></tr>\n";
}

void pods_table(Html& html, const StatusView& view, const IncidentStory& story, std::size_t limit,
                bool with_steps) {
  if (story.pods.empty()) {
    html << "<p class=\"none\">No pod was judged" << (story.closed ? Markup(".") : Markup(" yet."))
         << "</p>\n";
    return;
  }
  const std::vector<const PodStory*> pods = by_urgency(story);
  html << "<table class=\"pods\">\n<caption>Pods of <code>" << story.node.text()
       << "</code></caption>\n<thead><tr><th scope=\"col\">Pod</th><th scope=\"col\">State</th>"
          "<th scope=\"col\">Why</th><th scope=\"col\">Since</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < pods.size() && i < limit; ++i) {
    pod_row(html, view, *pods[i], with_steps);
  }
  html << "</tbody>\n</table>\n";
  if (pods.size() > limit) {
    html << "<p class=\"more\"><a href=\"" << view.root << "incidents/" << story.id.text()
         << "\">and " << pods.size() - limit << " more</a></p>\n";
  }
  if (story.cut_pods > 0) {
    html << "<p class=\"more\">and " << story.cut_pods
         << " more records of pods that are not shown; the audit log has them.</p>\n";
  }
}

void count(Html& html, bool& first, std::uint64_t number, std::string_view word) {
  if (number == 0) {
    return;
  }
  if (!first) {
    html << ", ";
  }
  first = false;
  html << number << " " << word;
}

Html counts(const IncidentStory& story) {
  const PodCounts counts = count_pods(story);
  Html html;
  bool first = true;
  count(html, first, counts.deleted, "deleted");
  count(html, first, counts.would_delete, "would be deleted");
  count(html, first, counts.not_done, "not done");
  count(html, first, counts.waiting, "waiting");
  count(html, first, counts.left_alone, "left alone");
  if (first) {
    html << "none";
  }
  return html;
}

// Why it is not simply under way, and when it is looked at again.
void stand_facts(Html& html, const StatusView& view, const StatusSnapshot::Stand& stand) {
  const fence::IncidentStatus& incident_status = stand.incident_status;
  if (incident_status.reason || !incident_status.text.empty()) {
    html << "<div><dt>Why</dt><dd>";
    if (incident_status.reason) {
      html << reason_link(view, *incident_status.reason) << " ";
    }
    html << "<span class=\"said\">" << incident_status.text << "</span></dd></div>\n";
  }
  if (stand.next) {
    html << "<div><dt>Looked at again</dt><dd>" << time_html(*stand.next, view.now)
         << "</dd></div>\n";
  }
}

void facts(Html& html, const StatusView& view, const IncidentStory& story) {
  html << "<dl class=\"facts line\">\n<div><dt>Opened</dt><dd>"
       << aged_time_html(story.opened, view.now) << "</dd></div>\n<div><dt>Because</dt><dd>"
       << reason_link(view, story.opened_for) << "</dd></div>\n";
  if (story.closed) {
    html << "<div><dt>Closed</dt><dd>" << aged_time_html(*story.closed, view.now)
         << "</dd></div>\n<div><dt>It lasted</dt><dd>" << span_text(*story.closed - story.opened)
         << "</dd></div>\n<div><dt>It ended</dt><dd>" << reason_link(view, story.closed_for)
         << "</dd></div>\n";
  } else if (const StatusSnapshot::Stand* stand = view.snapshot.stand_of(story.id)) {
    stand_facts(html, view, *stand);
  }
  html << "<div><dt>Pods</dt><dd>" << counts(story) << "</dd></div>\n</dl>\n";
}

}  // namespace

Html reason_link(const StatusView& view, audit::Reason reason) {
  const std::string_view code = audit::code(reason);
  Html html;
  html << "<a class=\"reason\" href=\"" << view.root << "reasons#" << code << "\"><code>" << code
       << "</code></a>";
  return html;
}

Html incident_article(const StatusView& view, const IncidentStory& story) {
  Html html;
  html << "<article class=\"incident " << class_of(tone_of(view, story))
       << "\" aria-labelledby=\"i-" << story.id.text() << "\">\n<h3 id=\"i-" << story.id.text()
       << "\">Node <code>" << story.node.text() << "</code> "
       << badge(tone_of(view, story), word_of(view, story)) << " <a class=\"id\" href=\""
       << view.root << "incidents/" << story.id.text() << "\">incident " << story.id.text()
       << "</a></h3>\n";
  facts(html, view, story);
  timeline(html, view, story);
  pods_table(html, view, story, kPodsInFront, false);
  html << "</article>\n";
  return html;
}

Html past_incidents(const StatusView& view) {
  Html html;
  if (view.snapshot.past.empty()) {
    html << "<p class=\"none\">No past incident is known to this replica.</p>\n";
    return html;
  }
  html << "<table>\n<caption>Past incidents, the newest first</caption>\n<thead><tr>"
          "<th scope=\"col\">Incident</th><th scope=\"col\">Node</th><th scope=\"col\">Opened</th>"
          "<th scope=\"col\">End</th><th scope=\"col\">Lasted</th><th scope=\"col\">Pods</th></tr>"
          "</thead>\n<tbody>\n";
  for (const IncidentBook::Story& story : view.snapshot.past) {
    html << "<tr><th scope=\"row\" data-label=\"Incident\"><a class=\"id\" href=\"" << view.root
         << "incidents/" << story->id.text() << "\">" << story->id.text()
         << "</a></th><td data-label=\"Node\"><code>" << story->node.text()
         << "</code></td><td data-label=\"Opened\">" << aged_time_html(story->opened, view.now)
         << "</td><td data-label=\"End\">" << badge(tone_of(view, *story), word_of(view, *story))
         << " " << reason_link(view, story->closed_for) << "</td><td data-label=\"Lasted\">"
         << span_text(story->closed.value_or(view.now) - story->opened)
         << "</td><td data-label=\"Pods\">" << counts(*story) << "</td></tr>\n";
  }
  html << "</tbody>\n</table>\n";
  return html;
}

std::string incident_page(const StatusView& view, const IncidentStory& story) {
  StatusFrame frame = {.title = "Incident " + story.id.text() + ", " + story.node.text(),
                       .path = "incidents/" + story.id.text(),
                       .may_refresh = !story.closed,
                       .main = {}};
  Html& html = frame.main;
  html << "<p class=\"up\"><a href=\"" << view.root << "./#incidents\">All incidents</a></p>\n"
       << "<section class=\"headline " << class_of(tone_of(view, story))
       << "\" aria-labelledby=\"title\">\n<h1 id=\"title\">Node <code>" << story.node.text()
       << "</code> " << badge(tone_of(view, story), word_of(view, story))
       << "</h1>\n<p>Incident <code>" << story.id.text() << "</code></p>\n</section>\n";
  facts(html, view, story);
  if (story.recalled) {
    html << "<p class=\"none\">From its record in the cluster, ConfigMap <code>moonfence-incident-"
         << story.id.text() << "</code>: pods that were left alone do not stand there.</p>\n";
  }
  html << "<section aria-labelledby=\"timeline\">\n<h2 id=\"timeline\">Timeline</h2>\n";
  timeline(html, view, story);
  html << "</section>\n<section aria-labelledby=\"pods\">\n<h2 id=\"pods\">Pods</h2>\n";
  pods_table(html, view, story, story.pods.size(), true);
  html << "</section>\n";
  return framed(view, frame);
}

}  // namespace moonfence::app
