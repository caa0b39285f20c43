#pragma once

// The page that describes one policy, made of what it declares: Markdown, readable as it is.

#include <string>

#include "policy/cases/chunk_map.h"
#include "policy/host/policy.h"

namespace moonfence::policy {

[[nodiscard]] std::string policy_page(const Policy& policy, const ChunkMap& map);

// ^[a-z][a-z0-9-]{0,39}$
[[nodiscard]] bool is_policy_name(const std::string& name);
// A policy to begin with, and a test of it that passes.
[[nodiscard]] std::string skeleton_policy(const std::string& name);
[[nodiscard]] std::string skeleton_test(const std::string& name);

}  // namespace moonfence::policy
