#pragma once

// POST, PUT, PATCH and DELETE.

#include "sim/server/server_state.h"
#include "sim/server/target.h"

namespace moonfence::sim {

[[nodiscard]] ServerAnswer answer_create(ServerState& server, const Route& route,
                                         const Target& target, const ServerRequest& request);
[[nodiscard]] ServerAnswer answer_replace(ServerState& server, const Route& route,
                                          const Target& target, const ServerRequest& request);
[[nodiscard]] ServerAnswer answer_patch(ServerState& server, const Route& route,
                                        const Target& target, const ServerRequest& request);
[[nodiscard]] ServerAnswer answer_delete(ServerState& server, const Route& route,
                                         const Target& target, const ServerRequest& request);

}  // namespace moonfence::sim
