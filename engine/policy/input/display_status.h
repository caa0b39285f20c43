#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace moonfence::policy {

// What `kubectl get pods` prints under STATUS for a pod's API object: the phase alone says
// "Running" for pods of a node that has died.
[[nodiscard]] std::string display_status(const nlohmann::json& pod);

}  // namespace moonfence::policy
