#pragma once

// The key `body` of a login: what is sent, with {username} and {password} where the contents of
// their files go.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "base/result.h"

namespace moonfence::app {

// `name` is the key's node.
[[nodiscard]] Result<void> read_login_body(const std::string& file, const YAML::Node& name,
                                           const YAML::Node& value, nlohmann::json& into);
// One of its values is this text.
[[nodiscard]] bool holds_text(const nlohmann::json& body, std::string_view text);
// None of its values is a mapping or a list.
[[nodiscard]] bool is_flat(const nlohmann::json& body);

}  // namespace moonfence::app
