#pragma once

// How we show who we are to an endpoint: the keys `auth` and `headers` of the engine's
// configuration. Secrets stand in files that it names, never in itself.

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/result.h"
#include "cluster/endpoints/endpoint.h"

namespace moonfence::app {

// `name` is the key's node.
[[nodiscard]] Result<void> read_auth(const std::string& file, const YAML::Node& name,
                                     const YAML::Node& value, cluster::EndpointRules& rules);
// Headers that are the same with each request; those that we set ourselves are refused.
[[nodiscard]] Result<void> read_headers(const std::string& file, const YAML::Node& name,
                                        const YAML::Node& value, std::vector<port::Header>& into);
// What the two keys and the url say together. `place` begins every message.
[[nodiscard]] Result<void> check_together(const std::string& file, const YAML::Node& name,
                                          const std::string& place,
                                          const cluster::EndpointRules& rules);
[[nodiscard]] Result<void> read_url(const std::string& file, const YAML::Node& name,
                                    const YAML::Node& value, std::string& into);
[[nodiscard]] Result<void> read_file_name(const std::string& file, const YAML::Node& name,
                                          const YAML::Node& value, std::string& into);

}  // namespace moonfence::app
