#include "base/hmac.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace moonfence {

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> code{};
  std::size_t length = 0;
  // With OpenSSL's defaults; a key of no bytes is a key too.
  const unsigned char* made =
      EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes are bytes
                reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(),
                code.size(), &length);
  MOONFENCE_CHECK(made != nullptr && length == code.size());
  return code;
}

}  // namespace moonfence
