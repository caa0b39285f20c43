#pragma once

// Candidate is the source of a policy with what came with it, before it may judge a pod.

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace moonfence::policy {

struct Candidate {
  std::string name;
  std::string source;
  nlohmann::json settings = nlohmann::json::object();
  std::optional<std::string> test = std::nullopt;    // NAME_test.lua
  std::map<std::string, std::string> fixtures = {};  // by key

  // Hex SHA-256 over source and settings as they were given.
  [[nodiscard]] std::string digest() const;
  // Over everything: an equal key means an equal outcome.
  [[nodiscard]] std::string key() const;
};

}  // namespace moonfence::policy
