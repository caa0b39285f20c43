#pragma once

// From what is asked of `moonfence simulate` to a scenario that can run.

#include <string>
#include <string_view>

#include "app/settings/settings.h"
#include "app/simulate/simulate_options.h"
#include "base/result.h"
#include "port/files.h"
#include "sim/scenarios/scenario.h"

namespace moonfence::app {

// The scenario with `--policies`, `--set` and `--seed` applied.
[[nodiscard]] Result<sim::Scenario> set_up_scenario(const SimulateOptions& options,
                                                    port::Files& files);

// A scenario file as it is.
[[nodiscard]] Result<sim::Scenario> read_scenario(const std::string& path, port::Files& files);

// The engine's settings that a plan names; what it does not name is as by default.
[[nodiscard]] Result<Settings> settings_of(const sim::Plan& plan);

// Sets `policy`'s setting `key` in the bindings of a moonfence.yaml. False: none of them is its.
[[nodiscard]] Result<bool> set_policy_setting(std::string& bindings, std::string_view policy,
                                              std::string_view key, std::string_view value);

// Name and first words of each built-in scenario.
[[nodiscard]] std::string list_scenarios();

}  // namespace moonfence::app
