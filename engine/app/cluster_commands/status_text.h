#pragma once

// What `moonfence status` found, as text and as a document. Pure.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "fence/record/incident_record.h"

namespace moonfence::app {

struct ClusterStatus {
  enum class Part { Lease, Report, Nodes, Incidents };
  struct Leader {
    std::string holder;  // "" while nobody leads
    std::optional<WallTime> renewed;
    Duration term{};
    std::int64_t transitions = 0;
  };
  struct Node {
    std::string name;
    std::string ready;  // "False", "Unknown", "" when the condition is missing
    std::string since;
    bool fenced = false;  // carries the engine's taint
  };
  std::optional<Leader> leader;  // nullopt: there is no Lease
  std::string instance;          // whose report it is; "" for none
  nlohmann::json report;         // of that replica in moonfence-status; null without
  std::size_t nodes = 0;
  std::vector<Node> down;  // or fenced
  std::vector<fence::IncidentRecord> open;
  std::vector<std::string> notes;
  // What could not be read, and is no more known to be there than not to be.
  std::set<Part> unread;

  // What that replica tells of the whole (app/status/situation.h); null without.
  [[nodiscard]] const nlohmann::json& situation() const;
  [[nodiscard]] bool knows(Part part) const { return !unread.contains(part); }
  // The term has not run out.
  [[nodiscard]] bool is_led(WallTime now) const;
};

[[nodiscard]] std::string status_text(const ClusterStatus& status, WallTime now);
[[nodiscard]] nlohmann::ordered_json status_document(const ClusterStatus& status, WallTime now);

[[nodiscard]] Result<ClusterStatus::Leader> leader_of(const nlohmann::json& lease);
// The report of the replica that leads, else the newest: (instance, report). Keys of ConfigMap
// moonfence-status are instances; a leader's identity begins with its own.
[[nodiscard]] std::pair<std::string, nlohmann::json> report_of(const nlohmann::json& config_map,
                                                               const std::string& holder);

}  // namespace moonfence::app
