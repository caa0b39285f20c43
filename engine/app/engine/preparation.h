#pragma once

// Everything that can be wrong before the loop starts, checked in one place: files, policy, where
// the API server is. What breaks a rule here ends the process with a documented code.

#include <memory>

#include <tl/expected.hpp>

#include "app/engine/engine.h"
#include "app/engine/run_options.h"
#include "app/settings/settings.h"
#include "base/error.h"
#include "base/result.h"
#include "os/system/append_file.h"
#include "port/cpu_clock.h"
#include "port/files.h"

namespace moonfence::app {

// The engine's configuration; "" its defaults. An error says what to do.
[[nodiscard]] Result<Settings> load_settings(port::Files& files, const std::string& path);

struct Prepared {
  Assignment assignment;
  std::unique_ptr<os::AppendFile> audit_file;  // null: none was asked for
};

struct Refusal {
  ExitCode code = ExitCode::Failed;
  Error error;
};

[[nodiscard]] tl::expected<Prepared, Refusal> prepare(const RunOptions& options, port::Files& files,
                                                      port::CpuClock& clock);

}  // namespace moonfence::app
