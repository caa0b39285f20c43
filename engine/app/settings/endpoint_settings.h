#pragma once

// The key `endpoints` of the engine's configuration: services that policies may ask. Each entry is
// read by what is also used for a service that is only told something (webhook_settings.h).

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "cluster/endpoints/endpoint.h"

namespace moonfence::app {

// `key`: auth, headers, timeout, tls or url. `name` is the key's node, here and below.
[[nodiscard]] Result<void> read_endpoint_entry(const std::string& file, const std::string& key,
                                               const YAML::Node& name, const YAML::Node& value,
                                               cluster::EndpointRules& rules);
// What they say together. `place` begins every message.
[[nodiscard]] Result<void> check_endpoint(const std::string& file, const YAML::Node& name,
                                          const std::string& place,
                                          const cluster::EndpointRules& rules);

[[nodiscard]] Result<void> read_endpoints(const std::string& file, const YAML::Node& name,
                                          const YAML::Node& value, cluster::EndpointTable& table);

}  // namespace moonfence::app
