#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace moonfence {
namespace {

using Digest = std::array<unsigned char, 32>;

Digest final_of(EVP_MD_CTX* state) {
  Digest digest{};
  MOONFENCE_CHECK(EVP_DigestFinal_ex(state, digest.data(), nullptr) == 1);
  return digest;
}

}  // namespace

std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 0x0FU];
  }
  return hex;
}

Sha256::Sha256() : method_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), state_(EVP_MD_CTX_new()) {
  MOONFENCE_CHECK(method_ != nullptr && state_ != nullptr);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(state_);
  EVP_MD_free(method_);
}

Digest Sha256::operator()(std::string_view text) {
  MOONFENCE_CHECK(EVP_DigestInit_ex(state_, method_, nullptr) == 1 &&
                  EVP_DigestUpdate(state_, text.data(), text.size()) == 1);
  return final_of(state_);
}

Sha256Stream::Sha256Stream() {
  MOONFENCE_CHECK(EVP_DigestInit_ex(state_, method_, nullptr) == 1);
}

void Sha256Stream::add(std::string_view piece) {
  MOONFENCE_CHECK(EVP_DigestUpdate(state_, piece.data(), piece.size()) == 1);
}

std::string Sha256Stream::hex() const {
  const Sha256Stream copy;
  MOONFENCE_CHECK(EVP_MD_CTX_copy_ex(copy.state_, state_) == 1);
  return hex_of(final_of(copy.state_));
}

std::string sha256_hex(std::string_view text) {
  return hex_of(Sha256()(text));
}

}  // namespace moonfence
