#pragma once

// The key `webhook` of the engine's configuration: who is told of incidents. It stands apart from
// `endpoints`, so no policy reaches it.

#include <optional>
#include <string>

#include <yaml-cpp/yaml.h>

#include "app/settings/settings.h"
#include "base/result.h"

namespace moonfence::app {

// `name` is the key's node.
[[nodiscard]] Result<void> read_webhook(const std::string& file, const YAML::Node& name,
                                        const YAML::Node& value,
                                        std::optional<WebhookSetting>& into);

}  // namespace moonfence::app
