#pragma once

// Nodes, machines, policies and the engine's own state in HTML, for the front page.

#include "app/web/status_frame.h"

namespace moonfence::app {

// Clusters of so many nodes show them all at once; of larger ones the plain Ready nodes are folded.
constexpr std::size_t kNodesUnfolded = 20;

[[nodiscard]] Html nodes_section(const StatusView& view);
// "" where every machine answers and has done so for minutes, or nobody watches.
[[nodiscard]] Html machines_section(const StatusView& view);
// "" where no fencer is bound, or another replica asks them.
[[nodiscard]] Html fencers_section(const StatusView& view);
[[nodiscard]] Html policies_section(const StatusView& view);
[[nodiscard]] Html engine_section(const StatusView& view);

}  // namespace moonfence::app
