#pragma once

// Ed25519 signatures of texts (RFC 8032). Keys and signatures are written in hexadecimal digits, in
// lower case.

#include <array>
#include <memory>
#include <string>
#include <string_view>

struct evp_pkey_st;

namespace moonfence {

class SigningKey {
 public:
  using Secret = std::array<unsigned char, 32>;
  explicit SigningKey(const Secret& secret);

  // What others need to check our signatures.
  [[nodiscard]] const std::string& public_key() const { return public_key_; }
  [[nodiscard]] std::string sign(std::string_view text) const;

 private:
  std::shared_ptr<evp_pkey_st> key_;
  std::string public_key_;
};

// False, too, where `public_key` or `signature` is none.
[[nodiscard]] bool is_signed_by(std::string_view public_key, std::string_view text,
                                std::string_view signature);

}  // namespace moonfence
