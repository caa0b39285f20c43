#pragma once

// The situation is what anybody is told of the whole at a glance: the headline, the brake's
// numbers, the taints that are kept, and how each open incident stands. It is made here alone, of a
// snapshot: /status.json has its parts, ConfigMap moonfence-status all of it, and `moonfence
// status` prints what stands there. Pure.

#include <nlohmann/json.hpp>

#include "app/status/incident_story.h"
#include "app/status/status_headline.h"
#include "app/status/status_snapshot.h"

namespace moonfence::app {

// How many open incidents it names, the newest first.
constexpr std::size_t kIncidentsInSituation = 50;

// {"state", "brake", "taintsKept", "healthSources", "detection", "fencers", "openIncidents",
// "incidents"}; of a replica that does not lead only "state": whoever leads knows the rest. Of
// each, "witness": where other replicas ask it about machines. Nothing in it changes while nothing
// happens: each change is written to the API server.
[[nodiscard]] nlohmann::ordered_json situation_of(const StatusSnapshot& snapshot, WallTime now);
// The same without what changes with each pass over a node's pods, when it is looked at next, and
// without what each lost packet changes: what the machines answer.
[[nodiscard]] nlohmann::ordered_json without_times(nlohmann::ordered_json situation);

// Its parts.
[[nodiscard]] nlohmann::ordered_json headline_json(const Headline& headline);
[[nodiscard]] nlohmann::ordered_json brake_json(const StatusSnapshot::Guard& guard);
[[nodiscard]] nlohmann::ordered_json kept_json(const StatusSnapshot::Guard& guard);
// Health sources that cannot be read or that name what is no Node.
[[nodiscard]] nlohmann::ordered_json sources_json(const StatusSnapshot::Guard& guard);
[[nodiscard]] nlohmann::ordered_json counts_json(const PodCounts& counts);
// What the machines answer, and how often one was silent that came back; null where that is not
// watched.
[[nodiscard]] nlohmann::ordered_json detection_json(const StatusSnapshot& snapshot);
// Nodes by what their fencers are worth, and those with a broken one; null where none is bound, or
// another replica knows.
[[nodiscard]] nlohmann::ordered_json fencers_json(const StatusSnapshot& snapshot);
// Puts "state", "reason", "text" and "nextLook" into what is told of an open incident.
void put_stand(nlohmann::ordered_json& incident, const StatusSnapshot::Stand& stand);

}  // namespace moonfence::app
