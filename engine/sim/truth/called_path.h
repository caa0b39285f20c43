#pragma once

// Request targets, read the way a server would, for checkers: independent of the engine's own code.

#include <string>
#include <string_view>
#include <vector>

namespace moonfence::sim {

struct CalledPath {
  std::string resource;  // "pods"
  std::string space;
  std::string name;  // "" for a collection
  std::string subresource;
  std::string query;  // as it stands
};

// "/api/v1/namespaces/db/pods/web-0?timeout=5s"; no resource when it is no object's path.
[[nodiscard]] CalledPath read_path(std::string_view target);
// Of DeleteOptions; "" when there is none.
[[nodiscard]] std::string uid_precondition(const std::string& body);
// Of a merge into an object that is meant in one version alone; "" when it is not.
[[nodiscard]] std::string merged_uid(const std::string& body);
// Of a JSON patch whose first step tests the UID; "" when it does not.
[[nodiscard]] std::string tested_uid(const std::string& body);

// A merge into a node's status of what is proven of it, for others (docs/proof.md), and of nothing
// else; what such a patch does is looked at when it is done.
[[nodiscard]] bool tells_evidence(std::string_view target, const std::string& body);

// Entries that a JSON patch takes out of the list that it tests first, both under this path.
[[nodiscard]] std::vector<std::string> removed_entries(const std::string& body,
                                                       std::string_view path);

}  // namespace moonfence::sim
