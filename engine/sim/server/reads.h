#pragma once

// GET, LIST and WATCH.

#include "sim/server/server_state.h"
#include "sim/server/target.h"

namespace moonfence::sim {

[[nodiscard]] ServerAnswer answer_get(ServerState& server, const Route& route,
                                      const Target& target);
[[nodiscard]] ServerAnswer answer_list(ServerState& server, const Route& route,
                                       const Target& target, bool metadata_only);
[[nodiscard]] ServerAnswer answer_watch(ServerState& server, const Route& route,
                                        const Target& target, WatchSink* sink);

}  // namespace moonfence::sim
