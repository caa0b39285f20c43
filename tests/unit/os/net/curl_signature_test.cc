#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/http_client.h"
#include "support/tls_server.h"

namespace moonfence::os {
namespace {

using test::Peer;
using test::TestServer;
using testing::HasSubstr;

struct CurlSignatureTest : testing::Test, test::HttpClient {
  test::RecordingSink sink;
};

// What the signature is worth is tried with another's implementation: tests/e2e/test_fencer_ec2.py.
TEST_F(CurlSignatureTest, what_is_signed_is_sent_and_once) {
  std::vector<std::string> requests;
  const TestServer server({}, [&](Peer& peer) {
    while (auto request = peer.read_request()) {
      requests.push_back(*std::move(request));
      peer.write(
          "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: AWS4-HMAC-SHA256\r\n"
          "Content-Length: 0\r\n\r\n");
    }
  });
  const auto transfer = http.start(
      {.method = port::Method::Post,
       .url = server.url("/"),
       .headers = {{"X-Amz-Security-Token", "t0ken"},
                   {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}},
       .body = "Action=DescribeInstances",
       .aws =
           std::make_shared<const port::AwsSignature>(port::AwsSignature{.region = "eu-central-1",
                                                                         .service = "ec2",
                                                                         .access_key = "AK:ID",
                                                                         .secret_key = "s3cret"})},
      sink);
  ASSERT_TRUE(run_until_ended(sink));
  EXPECT_EQ(sink.head.status, 401);
  ASSERT_EQ(requests.size(), 1U) << "a refusal is not answered by another try";
  EXPECT_THAT(requests[0], HasSubstr("Authorization: AWS4-HMAC-SHA256 Credential=AK:ID/"));
  EXPECT_THAT(requests[0], HasSubstr("/eu-central-1/ec2/aws4_request, SignedHeaders="
                                     "content-type;host;x-amz-date;x-amz-security-token, "));
  EXPECT_THAT(requests[0], testing::EndsWith("\r\n\r\nAction=DescribeInstances"));
  EXPECT_THAT(requests[0], testing::Not(HasSubstr("s3cret")));
  EXPECT_THAT(requests[0], testing::Not(HasSubstr("Expect")));
}

}  // namespace
}  // namespace moonfence::os
