#pragma once

// YAML values by the rules of the YAML 1.2 core schema: `no`, `on` and `1:30` are text, `0o17` is
// 15, a quoted value is text whatever it looks like.

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "kube/text/yaml.h"

namespace moonfence::kube {

// The tree's own limits (YamlLimits) bound the recursion. Invalid for what JSON has no number for:
// an integer beyond 64 bits, .inf and .nan; the text says "is …" without a place.
[[nodiscard]] Result<nlohmann::json> to_json(const Yaml& value);

// What a value is, for messages: "a list", "the number 5", "'text'".
[[nodiscard]] std::string described(const Yaml& value);

}  // namespace moonfence::kube
