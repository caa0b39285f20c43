#pragma once

// port::Files over the real file system. Never blocks on what is not a plain file: a FIFO without a
// writer would stop the loop.

#include <optional>
#include <string>

#include "port/files.h"

namespace moonfence::os {

class SystemFiles final : public port::Files {
 public:
  Result<std::string> read(const std::string& path, std::size_t limit = 16U << 20U) override;
  [[nodiscard]] std::optional<std::string> environment(const std::string& name) override;
};

}  // namespace moonfence::os
