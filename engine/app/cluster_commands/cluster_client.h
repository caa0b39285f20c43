#pragma once

// Single calls of the API server for commands that come, ask and go: each waits for its answer.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "kube/auth/config.h"
#include "kube/wire/caller.h"

namespace moonfence::app {

class ClusterClient {
 public:
  static constexpr Duration kTimeout = std::chrono::seconds(10);

  explicit ClusterClient(const kube::LoadedConfig& config);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // The object or list at the path; NotFound when there is none. An error says what to do.
  [[nodiscard]] Result<nlohmann::json> get(const std::string& path, const kube::Query& query = {});
  // The answer to what is posted there, and the object after a JSON merge patch (RFC 7386).
  [[nodiscard]] Result<nlohmann::json> post(const std::string& path, const nlohmann::json& body);
  [[nodiscard]] Result<nlohmann::json> merge(const std::string& path, const nlohmann::json& patch);
  // The answer to any other call.
  [[nodiscard]] Result<nlohmann::json> send(kube::ApiRequest request);

  // By the API server's clock, when it last answered.
  [[nodiscard]] WallTime now();

 private:
  class Line;
  std::unique_ptr<Line> line_;
};

}  // namespace moonfence::app
