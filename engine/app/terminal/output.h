#pragma once

// How commands print what they found: -o table|wide|json|yaml.

#include <string>

#include <nlohmann/json.hpp>

namespace moonfence::app {

enum class OutputForm { Table, Wide, Json, Yaml };

// Indented, with a newline at the end. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string to_json_text(const nlohmann::ordered_json& document);
// Block style; texts are quoted as JSON quotes them unless they are plain words.
[[nodiscard]] std::string to_yaml_text(const nlohmann::ordered_json& document);
// Of Json and Yaml.
[[nodiscard]] std::string document_text(const nlohmann::ordered_json& document, OutputForm form);

}  // namespace moonfence::app
