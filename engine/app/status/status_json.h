#pragma once

// The status page's data as JSON, for programs. The shape is documented in docs/reference.md: keys
// are added, none changes its meaning without another number in "api".

#include <string>

#include "app/status/status_snapshot.h"

namespace moonfence::app {

[[nodiscard]] std::string status_json(const StatusSnapshot& snapshot, WallTime now);
// One incident alone, of the form that it has there.
[[nodiscard]] std::string incident_json(const StatusSnapshot& snapshot, const IncidentStory& story);

}  // namespace moonfence::app
