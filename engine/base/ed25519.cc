#include "base/ed25519.h"

#include <cstddef>
#include <optional>
#include <vector>

#include <openssl/evp.h>

#include "base/check.h"
#include "base/sha256.h"

namespace moonfence {
namespace {

constexpr std::size_t kKeySize = 32;
constexpr std::size_t kSignatureSize = 64;

using Bytes = std::vector<unsigned char>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Context begun() {
  Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  MOONFENCE_CHECK(context != nullptr);
  return context;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// nullopt: not so many, or no digits.
std::optional<Bytes> bytes_of_hex(std::string_view hex, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() != 2 * size) {
    return std::nullopt;
  }
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<unsigned char>((high << 4U) | low));
  }
  return bytes;
}

}  // namespace

SigningKey::SigningKey(const Secret& secret)
    : key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.data(), secret.size()),
           EVP_PKEY_free) {
  MOONFENCE_CHECK(key_ != nullptr);
  std::array<unsigned char, kKeySize> bytes{};
  std::size_t size = bytes.size();
  MOONFENCE_CHECK(EVP_PKEY_get_raw_public_key(key_.get(), bytes.data(), &size) == 1);
  public_key_ = hex_of(bytes);
}

std::string SigningKey::sign(std::string_view text) const {
  const Context context = begun();
  std::array<unsigned char, kSignatureSize> signature{};
  std::size_t size = signature.size();
  MOONFENCE_CHECK(
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
      EVP_DigestSign(context.get(), signature.data(), &size, bytes_of(text), text.size()) == 1);
  return hex_of(signature);
}

bool is_signed_by(std::string_view public_key, std::string_view text, std::string_view signature) {
  const auto key_bytes = bytes_of_hex(public_key, kKeySize);
  const auto signed_bytes = bytes_of_hex(signature, kSignatureSize);
  if (!key_bytes || !signed_bytes) {
    return false;
  }
  const Key key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key_bytes->data(), key_bytes->size()),
      EVP_PKEY_free);
  const Context context = begun();
  return key != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signed_bytes->data(), signed_bytes->size(), bytes_of(text),
                          text.size()) == 1;
}

}  // namespace moonfence
