#pragma once

// The key `endpoints` of the engine's configuration: services that policies may ask.

#include <string>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "cluster/endpoints/endpoint.h"

namespace moonfence::app {

// `name` is the key's node.
[[nodiscard]] Result<void> read_endpoints(const std::string& file, const YAML::Node& name,
                                          const YAML::Node& value, cluster::EndpointTable& table);

}  // namespace moonfence::app
