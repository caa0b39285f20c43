#include "sim/scenarios/scenario_wire.h"

#include <gtest/gtest.h>

namespace moonfence::sim {
namespace {

using port::Method;

TEST(DescribeRequest, says_what_a_request_is_about) {
  const auto told = [](Method method, const std::string& target) {
    const SeenRequest seen = describe_request(method, "http://api-0.sim" + target);
    return seen.verb + " " + seen.subject;
  };
  EXPECT_EQ(told(Method::Delete, "/api/v1/namespaces/noobaa/pods/core-0"), "DELETE noobaa/core-0");
  EXPECT_EQ(told(Method::Get, "/api/v1/nodes/n1"), "GET n1");
  EXPECT_EQ(told(Method::Get, "/api/v1/nodes?watch=true&resourceVersion=5"), "WATCH ");
  EXPECT_EQ(told(Method::Get, "/api/v1/nodes?limit=500"), "LIST ");
  EXPECT_EQ(told(Method::Get, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500"),
            "LIST n1");
  EXPECT_EQ(told(Method::Get,
                 "/api/v1/namespaces/noobaa/pods?limit=5&fieldSelector=spec.nodeName%3Dn1%2Ca"),
            "LIST n1");
  EXPECT_EQ(told(Method::Post, "/apis/events.k8s.io/v1/namespaces/default/events"), "POST ");
}

}  // namespace
}  // namespace moonfence::sim
