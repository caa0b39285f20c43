#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace moonfence {

Sha256::Sha256() : method_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), state_(EVP_MD_CTX_new()) {
  MOONFENCE_CHECK(method_ != nullptr && state_ != nullptr);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(state_);
  EVP_MD_free(method_);
}

std::array<unsigned char, 32> Sha256::operator()(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  MOONFENCE_CHECK(EVP_DigestInit_ex(state_, method_, nullptr) == 1 &&
                  EVP_DigestUpdate(state_, text.data(), text.size()) == 1 &&
                  EVP_DigestFinal_ex(state_, digest.data(), nullptr) == 1);
  return digest;
}

}  // namespace moonfence
