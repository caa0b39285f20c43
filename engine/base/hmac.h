#pragma once

// HMAC with SHA-256 (RFC 2104): who knows the key has said this text.

#include <array>
#include <string_view>

namespace moonfence {

[[nodiscard]] std::array<unsigned char, 32> hmac_sha256(std::string_view key,
                                                        std::string_view text);

}  // namespace moonfence
