#pragma once

// Records of incidents (docs/incident-record.md) as tables. Pure.

#include <string>
#include <vector>

#include "fence/record/incident_record.h"

namespace moonfence::app {

// The newest first.
[[nodiscard]] std::string incidents_table(std::vector<fence::IncidentRecord> records,
                                          const std::string& indent = "");
// Times of steps count from the opening.
[[nodiscard]] std::string incident_text(const fence::IncidentRecord& record);

}  // namespace moonfence::app
