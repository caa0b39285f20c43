#pragma once

// The records that stand in the cluster, for commands that show them.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/cluster_commands/client_command.h"
#include "fence/record/incident_record.h"

namespace moonfence::app {

struct StoredIncidents {
  std::vector<fence::IncidentRecord> records;
  std::vector<nlohmann::ordered_json> documents;  // beside the records, as they stand there
  std::vector<std::string> faults;                // records that cannot be understood
};
// Those with such labels.
[[nodiscard]] Result<StoredIncidents> read_incidents(ClientGround& ground,
                                                     const std::string& selector);

}  // namespace moonfence::app
