#pragma once

// An Event has two faces over one storage: events.k8s.io/v1, in which it is stored here, and the
// older core/v1.

#include "sim/server/target.h"

namespace moonfence::sim {

// The route asks for the core/v1 face.
[[nodiscard]] bool shows_core_event(const Route& route);
[[nodiscard]] Json core_event(const Json& event);
// The other way round.
[[nodiscard]] Json plain_event(const Json& core_event);

}  // namespace moonfence::sim
