#include "app/webhook/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/text/base64.h"
#include "support/fake_files.h"

namespace moonfence::app {
namespace {

using testing::HasSubstr;
using testing::Not;

// The example of the reference libraries of Standard Webhooks.
constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* kId = "msg_p5jXN8AQM9LWM0D4loKWxJek";
constexpr std::int64_t kAt = 1614265330;
constexpr const char* kBody = R"({"test": 2432232314})";
constexpr const char* kSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

std::string secret_of(std::size_t bytes) {
  return "whsec_" + kube::base64_encoded(std::string(bytes, 'a'));
}

struct Signature : testing::Test {
  std::vector<std::string> read(const std::string& text) {
    files.write("/s", text);
    const auto secrets = read_signing_secrets(files, "/s");
    EXPECT_TRUE(secrets) << secrets.error().message();
    return secrets.value_or(std::vector<std::string>());
  }
  std::string fault(const std::string& text) {
    files.write("/s", text);
    const auto secrets = read_signing_secrets(files, "/s");
    return secrets ? "" : secrets.error().message();
  }
  test::FakeFiles files;
};

TEST_F(Signature, is_the_one_of_the_specifications_example) {
  EXPECT_EQ(webhook_signature(read(kSecret), kId, kAt, kBody), kSignature);
}

TEST_F(Signature, depends_on_id_time_and_every_byte_of_the_body) {
  const auto secrets = read(kSecret);
  EXPECT_NE(webhook_signature(secrets, "msg_2", kAt, kBody), kSignature);
  EXPECT_NE(webhook_signature(secrets, kId, kAt + 1, kBody), kSignature);
  EXPECT_NE(webhook_signature(secrets, kId, kAt, R"({"test": 2432232315})"), kSignature);
}

TEST_F(Signature, of_two_secrets_is_two_in_the_order_of_the_file) {
  const std::string other(32, 'k');
  const auto both = read("whsec_" + kube::base64_encoded(other) + "\r\n\n" + kSecret + "\n");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0], other);
  const std::string signatures = webhook_signature(both, kId, kAt, kBody);
  EXPECT_EQ(signatures, webhook_signature({other}, kId, kAt, kBody) + " " + kSignature);
}

TEST_F(Signature, is_sent_in_the_headers_of_the_specification) {
  const auto headers =
      webhook_headers(read(kSecret), kId,
                      WallTime(std::chrono::seconds(kAt) + std::chrono::milliseconds(999)), kBody);
  ASSERT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers[0].name + "=" + headers[0].value, std::string("webhook-id=") + kId);
  EXPECT_EQ(headers[1].name + "=" + headers[1].value, "webhook-timestamp=1614265330");
  EXPECT_EQ(headers[2].name + "=" + headers[2].value,
            std::string("webhook-signature=") + kSignature);
}

TEST_F(Signature, no_secret_that_is_none_is_taken_and_none_is_quoted) {
  EXPECT_THAT(fault(""), HasSubstr("secretFile /s has 0 secrets"));
  EXPECT_THAT(fault("\n \n"), HasSubstr("has 0 secrets"));
  EXPECT_THAT(fault(secret_of(23)), HasSubstr("23 bytes"));
  EXPECT_EQ(fault(secret_of(24)), "");
  EXPECT_EQ(fault(secret_of(64)), "");
  EXPECT_THAT(fault(secret_of(65)), HasSubstr("65 bytes"));
  const std::string bare = fault(std::string(32, 'a'));
  EXPECT_THAT(bare, HasSubstr("a line that is not whsec_ and base64"))
      << "the libraries take it for base64, and we do not";
  EXPECT_THAT(bare, HasSubstr("openssl rand")) << "it says what to do";
  EXPECT_THAT(bare, Not(HasSubstr("aaa")));
  EXPECT_THAT(fault("whsec_c2hvcnQ="), HasSubstr("5 bytes"));
  const std::string three = std::string(kSecret) + "\n";
  EXPECT_THAT(fault(three + three + three), HasSubstr("3 secrets"));
  const std::string broken = fault("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!?");
  EXPECT_THAT(broken, HasSubstr("not whsec_ and base64"));
  EXPECT_THAT(broken, Not(HasSubstr("MfKQ")));
  EXPECT_THAT(broken, HasSubstr("openssl rand")) << "it says what to do";
  files.remove("/s");
  const auto absent = read_signing_secrets(files, "/s");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message(), HasSubstr("secretFile: /s"));
}

}  // namespace
}  // namespace moonfence::app
