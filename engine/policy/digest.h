#pragma once

#include <string>
#include <string_view>

namespace moonfence::policy {

// Hex SHA-256, lower case.
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace moonfence::policy
