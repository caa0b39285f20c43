#pragma once

// Files and environment variables, read-only: credentials, kubeconfigs, policies.

#include <optional>
#include <string>

#include "base/result.h"

namespace moonfence::port {

class Files {
 public:
  virtual ~Files() = default;
  // The whole file. NotFound, Forbidden, Limit (larger than `limit` bytes) or Invalid (a folder, a
  // device); the text names the path.
  virtual Result<std::string> read(const std::string& path, std::size_t limit = 16U << 20U) = 0;
  [[nodiscard]] virtual std::optional<std::string> environment(const std::string& name) = 0;
};

}  // namespace moonfence::port
