#pragma once

// Asks the fencers of nodes from where a command runs, all of them and some nodes at a time, and
// waits for the answers. It only asks: whether one may switch machines off makes no difference.

#include <set>
#include <string>
#include <vector>

#include "app/fencer_check/fencer_report.h"
#include "cluster/endpoints/endpoint.h"
#include "fence/fencers/power_question.h"
#include "kube/auth/config.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

struct FencerAsking {
  const kube::LoadedConfig& config;  // fencers may ask the API server, too
  const std::set<std::string>& allowed_reads;
  const cluster::EndpointTable& endpoints;
  const std::vector<fence::BoundFencer>& fencers;
};

// The nodes must carry their raw JSON; the answers stand in their order.
[[nodiscard]] std::vector<FencerReport::Node> ask_fencers(const FencerAsking& asking,
                                                          const std::vector<kube::Node>& nodes);

}  // namespace moonfence::app
