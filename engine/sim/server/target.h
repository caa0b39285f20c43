#pragma once

// What a request's line asks for: the path in its decoded segments, the query in its decoded
// values, and which resource, object and subresource they name.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/store/object_store.h"

namespace moonfence::sim {

struct Target {
  std::string path;                   // as it came, without the query
  std::vector<std::string> segments;  // "/api/v1/nodes" → api, v1, nodes
  std::map<std::string, std::string, std::less<>> query;

  // "" when it is not there.
  [[nodiscard]] const std::string& value(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return query.find(name) != query.end(); }
  // "1" and "true", as Kubernetes reads its flags.
  [[nodiscard]] bool flag(std::string_view name) const;
};

// "%3D" → "="; in a query '+' is a space.
[[nodiscard]] std::string percent_decoded(std::string_view text, bool is_query);

[[nodiscard]] Target parse_target(std::string_view text);

struct Route {
  const ResourceKind* kind = nullptr;
  std::string version;  // the apiVersion under which it was asked for: "storage.k8s.io/v1"
  std::string space;    // "" of a cluster-wide list, or without namespaces
  std::string name;     // "" of a collection
  std::string subresource;

  [[nodiscard]] Key key() const;
};

// Nothing when no such path is served.
[[nodiscard]] std::optional<Route> find_route(const Target& target);

}  // namespace moonfence::sim
