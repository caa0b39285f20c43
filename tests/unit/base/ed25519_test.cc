#include "base/ed25519.h"

#include <string>

#include <gtest/gtest.h>

namespace moonfence {
namespace {

// RFC 8032, 7.1, test 1.
constexpr SigningKey::Secret kSecret = {
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
constexpr std::string_view kPublic =
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
constexpr std::string_view kOfNothing =
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";

TEST(Ed25519, the_standards_example) {
  const SigningKey key(kSecret);
  EXPECT_EQ(key.public_key(), kPublic);
  EXPECT_EQ(key.sign(""), kOfNothing);
  EXPECT_TRUE(is_signed_by(kPublic, "", kOfNothing));
}

TEST(Ed25519, another_text_another_key_or_another_signature_is_refused) {
  const SigningKey key(kSecret);
  const std::string signature = key.sign("silent");
  EXPECT_TRUE(is_signed_by(key.public_key(), "silent", signature));
  EXPECT_FALSE(is_signed_by(key.public_key(), "silenT", signature));
  EXPECT_FALSE(is_signed_by(SigningKey({1}).public_key(), "silent", signature));
  std::string other = signature;
  other[0] = other[0] == '0' ? '1' : '0';
  EXPECT_FALSE(is_signed_by(key.public_key(), "silent", other));
}

TEST(Ed25519, what_is_no_key_or_no_signature_is_refused) {
  const SigningKey key(kSecret);
  const std::string signature = key.sign("silent");
  EXPECT_FALSE(is_signed_by("", "silent", signature));
  EXPECT_FALSE(is_signed_by(key.public_key(), "silent", ""));
  EXPECT_FALSE(is_signed_by(key.public_key(), "silent", signature + "00"));
  EXPECT_FALSE(is_signed_by(std::string(64, 'x'), "silent", signature));
  EXPECT_FALSE(is_signed_by(std::string(64, 'f'), "silent", signature));
}

}  // namespace
}  // namespace moonfence
