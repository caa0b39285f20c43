#pragma once

// Loads the fencers that the engine's configuration binds to nodes.

#include <vector>

#include "app/settings/settings.h"
#include "base/result.h"
#include "fence/fencers/power_watch.h"
#include "port/cpu_clock.h"
#include "port/files.h"

namespace moonfence::app {

// An error names the fencer, what is wrong and the next step. The clock must outlive them.
[[nodiscard]] Result<std::vector<fence::BoundFencer>> load_fencers(const Settings& settings,
                                                                   port::Files& files,
                                                                   port::CpuClock& clock);

}  // namespace moonfence::app
