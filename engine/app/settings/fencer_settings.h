#pragma once

// The setting `fencers`: who is asked whether machines have power. It stands in the engine's own
// configuration: whoever edits policies must not be able to say that a machine is off.

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "app/settings/settings.h"
#include "base/result.h"

namespace moonfence::app {

[[nodiscard]] Result<void> read_fencers(const std::string& file, const YAML::Node& name,
                                        const YAML::Node& value, std::vector<FencerSetting>& into);

}  // namespace moonfence::app
