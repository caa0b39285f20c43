#include "base/sha256.h"

#include <string>

#include <gtest/gtest.h>

namespace moonfence {
namespace {

std::string hex(const std::array<unsigned char, 32>& digest) {
  std::string out;
  for (const unsigned char byte : digest) {
    out += "0123456789abcdef"[byte >> 4U];
    out += "0123456789abcdef"[byte & 0x0FU];
  }
  return out;
}

TEST(Sha256, it_is_that_of_fips_180_whatever_was_asked_before) {
  Sha256 sha256;
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace moonfence
