#pragma once

// The setting `fencers`: who is asked whether machines have power. It stands in the engine's own
// configuration: whoever edits policies must not be able to say that a machine is off.

#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "app/settings/settings.h"
#include "base/result.h"

namespace moonfence::app {

// The one that comes with the engine and never says off, but isolated, which none of the others
// does. What one with a file says is its own affair.
inline constexpr std::string_view kIsolatesOnly = "network-fence";

[[nodiscard]] Result<void> read_fencers(const std::string& file, const YAML::Node& name,
                                        const YAML::Node& value, std::vector<FencerSetting>& into);

}  // namespace moonfence::app
