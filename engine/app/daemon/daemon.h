#pragma once

// `moonfence run`: the engine with real clocks, files and network, its signals and its HTTP servers
// for metrics, health and the status page.

#include "app/engine/run_options.h"

namespace moonfence::app {

// Runs until a signal ends it. Errors before the loop starts are printed to standard error.
[[nodiscard]] ExitCode run(const RunOptions& options);

}  // namespace moonfence::app
