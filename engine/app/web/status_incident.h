#pragma once

// Incidents in HTML: an article with facts, timeline and pods for the front page, the whole story
// on a page of its own, and the table of past ones.

#include <cstddef>
#include <string>

#include "app/web/status_frame.h"

namespace moonfence::app {

// How many of its pods the front page shows.
constexpr std::size_t kPodsInFront = 12;

[[nodiscard]] Html incident_article(const StatusView& view, const IncidentStory& story);
[[nodiscard]] Html past_incidents(const StatusView& view);
[[nodiscard]] std::string incident_page(const StatusView& view, const IncidentStory& story);

// The code of a reason, which leads to what it means.
[[nodiscard]] Html reason_link(const StatusView& view, audit::Reason reason);

}  // namespace moonfence::app
