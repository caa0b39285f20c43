#include "base/names.h"

#include <type_traits>

#include <gtest/gtest.h>

namespace moonfence {
namespace {

TEST(Names, different_identifiers_cannot_be_mixed_up) {
  static_assert(!std::is_convertible_v<NodeName, Uid>);
  static_assert(!std::is_convertible_v<std::string, NodeName>);
  EXPECT_EQ(NodeName("n1"), NodeName("n1"));
  EXPECT_LT(NodeName("n1"), NodeName("n2"));
}

TEST(Names, an_object_is_printed_as_kubectl_prints_it) {
  EXPECT_EQ((PodRef{Namespace("db"), "web-0"}.text()), "db/web-0");
}

}  // namespace
}  // namespace moonfence
