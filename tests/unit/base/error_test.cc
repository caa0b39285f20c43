#include "base/error.h"

#include <gtest/gtest.h>

#include "base/result.h"

namespace moonfence {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) {
    return failure(Error::Kind::Invalid, "3 is odd", "give an even number");
  }
  return number / 2;
}

TEST(Errors, the_message_carries_the_next_step) {
  const auto odd = half(3);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message(), "3 is odd (give an even number)");
  EXPECT_EQ(Error(odd.error()).within("number").text, "number: 3 is odd");
}

TEST(Errors, a_value_passes_through) {
  EXPECT_EQ(half(4).value(), 2);
}

TEST(Errors, every_kind_has_a_word) {
  EXPECT_EQ(to_string(Error::Kind::Unknown), "unknown");
  EXPECT_EQ(to_string(Error::Kind::Gone), "gone");
}

}  // namespace
}  // namespace moonfence
