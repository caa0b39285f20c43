#include "policy/digest.h"

#include <array>
#include <cstdint>

#include <openssl/evp.h>

#include "base/check.h"

namespace moonfence::policy {

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  MOONFENCE_CHECK(EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) ==
                  1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[hash[i] >> 4U];
    hex += kDigits[hash[i] & 0x0FU];
  }
  return hex;
}

}  // namespace moonfence::policy
