#pragma once

// Asks the fencers of nodes from where a command runs, all of them and some nodes at a time, and
// waits for the answers. It only asks: whether one may switch machines off makes no difference.

#include <vector>

#include "app/fencer_check/fencer_line.h"
#include "app/fencer_check/fencer_report.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

// The nodes must carry their raw JSON; the answers stand in their order.
[[nodiscard]] std::vector<FencerReport::Node> ask_fencers(const FencerAsking& asking,
                                                          const std::vector<kube::Node>& nodes);

}  // namespace moonfence::app
