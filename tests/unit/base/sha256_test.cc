#include "base/sha256.h"

#include <string>

#include <gtest/gtest.h>

namespace moonfence {
namespace {

// FIPS 180-2, appendix B.
constexpr std::string_view kOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view kOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, the_standards_examples) {
  EXPECT_EQ(sha256_hex(""), kOfNothing);
  EXPECT_EQ(sha256_hex("abc"), kOfAbc);
}

TEST(Sha256, one_text_is_asked_after_another) {
  Sha256 sha256;
  const auto first = sha256("abc");
  EXPECT_EQ(first[0], 0xba);
  EXPECT_EQ(sha256("")[0], 0xe3);
  EXPECT_EQ(sha256("abc"), first);
}

TEST(Sha256, a_text_may_come_in_pieces_and_be_asked_in_between) {
  Sha256Stream stream;
  EXPECT_EQ(stream.hex(), kOfNothing);
  stream.add("a");
  EXPECT_EQ(stream.hex(), sha256_hex("a"));
  stream.add("bc");
  EXPECT_EQ(stream.hex(), kOfAbc);
}

}  // namespace
}  // namespace moonfence
