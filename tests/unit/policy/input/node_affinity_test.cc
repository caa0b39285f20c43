#include "policy/input/node_affinity.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::policy {
namespace {

using nlohmann::json;

const char* const kNode = R"({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}})";

bool matches(const std::string& terms) {
  const json selector = json::parse(R"({"nodeSelectorTerms": )" + terms + "}");
  return matches_selector(&selector, json::parse(kNode));
}
// One term of one expression.
bool holds(const std::string& expression) {
  return matches(R"([{"matchExpressions": [)" + expression + "]}]");
}

TEST(NodeAffinity, no_selector_is_no_demand) {
  EXPECT_TRUE(matches_selector(nullptr, json::parse(kNode)));
}

TEST(NodeAffinity, every_operator_does_what_the_scheduler_does) {
  EXPECT_TRUE(holds(R"({"key": "zone", "operator": "In", "values": ["b", "a"]})"));
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "In", "values": ["b"]})"));
  EXPECT_FALSE(holds(R"({"key": "rack", "operator": "In", "values": [""]})"));
  EXPECT_TRUE(holds(R"({"key": "zone", "operator": "NotIn", "values": ["b"]})"));
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "NotIn", "values": ["a"]})"));
  EXPECT_TRUE(holds(R"({"key": "rack", "operator": "NotIn", "values": ["a"]})"));
  EXPECT_TRUE(holds(R"({"key": "zone", "operator": "Exists"})"));
  EXPECT_FALSE(holds(R"({"key": "rack", "operator": "Exists"})"));
  EXPECT_TRUE(holds(R"({"key": "rack", "operator": "DoesNotExist"})"));
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "DoesNotExist"})"));
  EXPECT_TRUE(holds(R"({"key": "cores", "operator": "Gt", "values": ["7"]})"));
  EXPECT_FALSE(holds(R"({"key": "cores", "operator": "Gt", "values": ["8"]})"));
  EXPECT_TRUE(holds(R"({"key": "cores", "operator": "Lt", "values": ["9"]})"));
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "Gt", "values": ["1"]})"));
}

TEST(NodeAffinity, terms_are_alternatives_and_expressions_are_not) {
  EXPECT_TRUE(
      matches(R"([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
                          {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}])"));
  EXPECT_FALSE(matches(R"([{"matchExpressions": [{"key": "zone", "operator": "Exists"},
                                                 {"key": "rack", "operator": "Exists"}]}])"));
  EXPECT_TRUE(matches(
      R"([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])"));
  EXPECT_FALSE(matches(
      R"([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}])"));
}

TEST(NodeAffinity, what_says_nothing_or_nonsense_matches_no_node) {
  for (const char* terms : {"[]", "[{}]", R"([{"matchExpressions": []}])", "7", R"(["x"])",
                            R"([{"matchExpressions": 7}])"}) {
    EXPECT_FALSE(matches(terms)) << terms;
  }
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "Near", "values": ["a"]})"));
  EXPECT_FALSE(holds(R"({"key": "zone", "operator": "In", "values": "a"})"));
  EXPECT_FALSE(holds(R"({"key": "cores", "operator": "Gt", "values": ["1", "2"]})"));
}

}  // namespace
}  // namespace moonfence::policy
