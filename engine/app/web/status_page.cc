#include "app/web/status_page.h"

#include "app/status/status_headline.h"
#include "app/status/status_words.h"
#include "app/web/status_incident.h"
#include "app/web/status_tables.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

void headline_section(Html& html, const Headline& headline) {
  html << "<section class=\"headline " << class_of(headline.tone)
       << "\" aria-labelledby=\"state\">\n<h1 id=\"state\"><span class=\"sign\" "
          "aria-hidden=\"true\">"
       << sign_of(headline.tone) << "</span> " << headline.title << "</h1>\n<p>" << headline.text
       << "</p>\n</section>\n";
  if (headline.notices.empty()) {
    return;
  }
  html << "<section aria-label=\"To be noticed\">\n<ul class=\"notices\">\n";
  for (const Notice& notice : headline.notices) {
    html << "<li class=\"" << class_of(notice.tone) << "\"><span aria-hidden=\"true\">"
         << sign_of(notice.tone) << "</span> <span>" << notice.text;
    if (!notice.hint.empty()) {
      html << "<br><span class=\"said\">" << notice.hint << "</span>";
    }
    html << "</span></li>\n";
  }
  html << "</ul>\n</section>\n";
}

void fact(Html& html, Markup term, const Html& value, const std::string& more) {
  html << "<div><dt>" << term << "</dt><dd>" << value;
  if (!more.empty()) {
    html << " <span class=\"muted\">" << more << "</span>";
  }
  html << "</dd></div>\n";
}

Html mode_badge(policy::Mode mode) {
  switch (mode) {
    case policy::Mode::Enforce:
      return badge(Tone::Good, "enforce");
    case policy::Mode::Observe:
      return badge(Tone::Waiting, "observe");
    case policy::Mode::Off:
      break;
  }
  return badge(Tone::Warning, "off");
}

void facts(Html& html, const StatusSnapshot& snapshot) {
  const StatusSnapshot::Guard& guard = snapshot.guard;
  const std::int64_t down = snapshot.counts.total - snapshot.counts.ready;
  html << "<dl class=\"facts strip\" aria-label=\"At a glance\">\n";
  fact(html, "Mode", mode_badge(snapshot.policies.mode),
       snapshot.policies.mode_set_by.empty() ? "" : "by " + snapshot.policies.mode_set_by);
  fact(html, "Role",
       snapshot.replica.leads ? badge(Tone::Good, "acts") : badge(Tone::Neutral, "stands by"),
       snapshot.replica.elects ? "holds the Lease: " + (snapshot.replica.holder.empty()
                                                            ? std::string("nobody")
                                                            : holder_name(snapshot.replica.holder))
                               : "the only replica");
  fact(html, "Brake",
       guard.too_many_down         ? badge(Tone::Alarm, "frozen")
       : guard.disrupted_zones > 0 ? badge(Tone::Warning, "slow")
                                   : badge(Tone::Good, "free"),
       std::to_string(guard.workers_down) + " of " + std::to_string(guard.workers) +
           " workers newly down, " + limit_text(guard.max_down));
  fact(html, "Self-doubt",
       guard.doubts.empty() ? badge(Tone::Good, "none") : badge(Tone::Alarm, "frozen"),
       joined(guard.doubts, ", "));
  fact(html, "Nodes",
       down == 0 ? badge(Tone::Good, "all Ready")
                 : badge(Tone::Alarm, counted(static_cast<std::uint64_t>(down), "node") + " down"),
       "of " + std::to_string(snapshot.counts.total));
  fact(html, "Incidents",
       !snapshot.replica.leads ? badge(Tone::Neutral, "not known")
       : snapshot.open_incidents == 0
           ? badge(Tone::Good, "none under way")
           : badge(Tone::Busy, std::to_string(snapshot.open_incidents) + " under way"),
       !snapshot.replica.leads ? "whoever acts knows of them" : states_text(snapshot));
  html << "</dl>\n";
}

void incidents_section(Html& html, const StatusView& view) {
  const StatusSnapshot& snapshot = view.snapshot;
  html << "<section aria-labelledby=\"incidents\">\n<h2 id=\"incidents\">Incidents</h2>\n";
  std::size_t told = 0;
  for (const IncidentBook::Story& story : snapshot.under_way) {
    if (told == kIncidentsInFront) {
      break;
    }
    ++told;
    html << incident_article(view, *story);
  }
  if (!snapshot.replica.leads) {
    html << "<p class=\"none\">This replica stands by; whoever acts knows what is under way.</p>\n";
  } else if (snapshot.open_incidents == 0) {
    html << "<p class=\"none\">None is under way.</p>\n";
  } else if (snapshot.open_incidents > told) {
    html << "<p class=\"more\">and " << snapshot.open_incidents - told << " more under way:";
    for (std::size_t i = told; i < snapshot.under_way.size(); ++i) {
      html << " <a class=\"id\" href=\"" << view.root << "incidents/"
           << snapshot.under_way[i]->id.text() << "\">" << snapshot.under_way[i]->node.text()
           << "</a>";
    }
    html << "</p>\n";
  }
  html << past_incidents(view) << "</section>\n";
}

}  // namespace

std::string front_page(const StatusView& view) {
  const Headline headline = headline_of(view.snapshot, view.now);
  StatusFrame frame = {.title = headline.title, .path = "", .may_refresh = true, .main = {}};
  headline_section(frame.main, headline);
  facts(frame.main, view.snapshot);
  incidents_section(frame.main, view);
  frame.main << machines_section(view) << fencers_section(view) << nodes_section(view)
             << policies_section(view) << engine_section(view);
  return framed(view, frame);
}

}  // namespace moonfence::app
