#include "cluster/endpoints/aws.h"

#include <string>
#include <vector>

#include "unit/cluster/endpoints/endpoint_fixture.h"

namespace moonfence::cluster {
namespace {

constexpr const char* kDescribe = "/?Action=DescribeInstances&InstanceId.1=i-0a&Version=2016-11-15";
constexpr const char* kStop =
    R"({"Action":"StopInstances","Force":true,"InstanceId.1":"i-0a","Version":"2016-11-15"})";

// As EC2's documentation has it.
std::string error_body(const std::string& code) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>" + code +
         "</Code><Message>secret message</Message></Error></Errors>"
         "<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>";
}

struct AwsTest : EndpointTest {
  AwsTest() {
    files.write("/secret/id", "AKIDEXAMPLE\n");
    files.write("/secret/key", "s3cret+key\n");
    EndpointRules rules;
    rules.url = "https://ec2.eu-central-1.amazonaws.com";
    rules.auth = EndpointRules::Auth::Aws;
    rules.aws.region = "eu-central-1";
    rules.aws.access_key_file = "/secret/id";
    rules.aws.secret_key_file = "/secret/key";
    use(rules);
  }
  void answer(int status, const std::string& body) {
    http.on(port::Method::Post, "/",
            FakeAnswer{.status = status,
                       .body = body,
                       .headers = {{"content-type", "text/xml;charset=UTF-8"}}});
  }
  // "done", or why not.
  std::string tell(const std::string& parameters, const std::string& path = "/") {
    std::optional<std::string> got;
    const auto call = endpoints->post(
        "vendor", {.path = path, .body = parameters, .limit = 5s, .may_send = may_send},
        [&got](const Result<void>& accepted) {
          got = accepted ? "done" : accepted.error().message();
        });
    EXPECT_FALSE(got.has_value()) << "answered inside post()";
    (void)test::run_until(
        loop, [&got] { return got.has_value(); }, 1min);
    return got.value_or("never called");
  }
};

TEST_F(AwsTest, a_question_is_a_signed_form_and_its_answer_is_xml) {
  answer(200,
         "<DescribeInstancesResponse><reservationSet><item><a>1</a></item></reservationSet>"
         "</DescribeInstancesResponse>");
  const auto said = get(kDescribe);
  ASSERT_TRUE(said) << said.error().error.message();
  EXPECT_EQ((*said->body)["DescribeInstancesResponse"]["reservationSet"][0]["a"], "1");
  ASSERT_EQ(http.requests.size(), 1U);
  const FakeRequest& sent = http.requests[0];
  EXPECT_EQ(sent.line(), "POST /");
  EXPECT_EQ(sent.body, "Action=DescribeInstances&InstanceId.1=i-0a&Version=2016-11-15");
  EXPECT_EQ(sent.header("Content-Type"), "application/x-www-form-urlencoded; charset=utf-8");
  EXPECT_EQ(sent.header("X-Amz-Security-Token"), "");
  ASSERT_EQ(noted.signatures.size(), 1U);
  EXPECT_EQ(noted.signatures[0], "eu-central-1 ec2 AKIDEXAMPLE s3cret+key");
}

TEST_F(AwsTest, keys_are_read_anew_for_each_request_and_never_told) {
  answer(200, "<R/>");
  ASSERT_TRUE(get(kDescribe));
  files.write("/secret/id", "AKIDNEXT\n");
  files.write("/secret/key", "next\n");
  ASSERT_TRUE(get(kDescribe));
  EXPECT_EQ(noted.signatures.back(), "eu-central-1 ec2 AKIDNEXT next");
  files.remove("/secret/key");
  const auto gone = get(kDescribe);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().why, EndpointFailure::Why::Unauthorized);
  EXPECT_NE(gone.error().error.message().find("/secret/key"), std::string::npos);
  EXPECT_EQ(http.requests.size(), 2U) << "nothing is sent unsigned";
  EXPECT_FALSE(told("s3cret") || told("next") || told("AKID"));
}

TEST_F(AwsTest, a_session_token_is_a_header_of_the_request) {
  EndpointRules rules;
  rules.url = "https://ec2.eu-central-1.amazonaws.com";
  rules.auth = EndpointRules::Auth::Aws;
  rules.aws = {.region = "eu-central-1",
               .service = "ec2",
               .access_key_file = "/secret/id",
               .secret_key_file = "/secret/key",
               .session_token_file = "/secret/token"};
  endpoints.reset();
  use(rules);
  answer(200, "<R/>");
  ASSERT_FALSE(get(kDescribe)) << "without its token";
  EXPECT_TRUE(http.requests.empty());
  files.write("/secret/token", "t0ken\n");
  ASSERT_TRUE(get(kDescribe));
  EXPECT_EQ(http.requests[0].header("X-Amz-Security-Token"), "t0ken");
}

// In these APIs any call may be an order, a GET too. Whoever asks must not be able to give one.
TEST_F(AwsTest, a_question_cannot_be_an_order) {
  answer(200, "<R/>");
  for (const std::string path : {
           "/?Action=StopInstances&InstanceId.1=i-0a",
           "/?Action=TerminateInstances&InstanceId.1=i-0a",
           "/?Action=describeInstances",
           "/?Action=Describe%20Instances",
           "/?Action=DescribeInstances%26Action=StopInstances",
           "/?Action=DescribeInstances&Action=StopInstances",
           "/?Action=StopInstances&Action=DescribeInstances",
           "/?Action=DescribeInstances&action=StopInstances",
           "/?Action=DescribeInstances&A%43TION=StopInstances",
           "/?action=DescribeInstances",
           "/?%41ction=StopInstances",
           "/?InstanceId.1=i-0a",
           "/?Action",
           "/?Action=",
           "/",
           "/x?Action=DescribeInstances",
           "/DescribeInstances",
           "/?Action=GetConsoleOutput",
           "/?Action=XDescribe",
       }) {
    const auto said = get(path);
    ASSERT_FALSE(said) << path;
    EXPECT_EQ(said.error().why, EndpointFailure::Why::Refused) << path;
    EXPECT_TRUE(said.error().error.text.starts_with("endpoint vendor: ")) << path;
  }
  EXPECT_TRUE(http.requests.empty());
  EXPECT_EQ(get("/?Action=StopInstances").error().error.text,
            "endpoint vendor: Action=StopInstances at / is no question: of a service of AWS only "
            "actions at / that begin with Describe are asked");
}

TEST_F(AwsTest, an_order_stops_one_instance_and_does_nothing_else) {
  answer(200, "<StopInstancesResponse/>");
  EXPECT_EQ(tell(kStop), "done");
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].line(), "POST /");
  EXPECT_EQ(http.requests[0].body,
            "Action=StopInstances&Force=true&InstanceId.1=i-0a&Version=2016-11-15");
  EXPECT_EQ(noted.signatures[0], "eu-central-1 ec2 AKIDEXAMPLE s3cret+key");
  for (const std::string parameters : {
           R"({"Action":"TerminateInstances","InstanceId.1":"i-0a"})",
           R"({"Action":"RebootInstances","InstanceId.1":"i-0a"})",
           R"({"Action":"StopInstances"})",
           R"({"Action":"StopInstances","InstanceId.1":"i-0a","InstanceId.2":"i-0b"})",
           R"({"Action":"StopInstances","InstanceId.1":"i-0a","instanceid.2":"i-0b"})",
           R"({"Action":"StopInstances","InstanceId.1":"i-0a","action":"TerminateInstances"})",
           R"({"Action":"StopInstances","InstanceId.1":"i-0a","Hibernate":true})",
           R"({"Action":"StopInstances","InstanceId.1":"i-0a","hibernate":"true"})",
           R"({"InstanceId.1":"i-0a"})",
           R"([])",
           "",
       }) {
    EXPECT_NE(tell(parameters), "done") << parameters;
  }
  EXPECT_NE(tell(kStop, "/?Action=TerminateInstances"), "done");
  EXPECT_NE(tell(kStop, "/x"), "done");
  EXPECT_EQ(http.requests.size(), 1U);
  may_send = [] { return false; };
  EXPECT_NE(tell(kStop), "done") << "the guard is asked as it leaves";
}

TEST_F(AwsTest, a_refusal_has_the_services_word_and_nothing_else_of_it) {
  answer(403, error_body("UnauthorizedOperation"));
  const auto said = get(kDescribe);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().why, EndpointFailure::Why::Status);
  EXPECT_EQ(said.error().code, "UnauthorizedOperation");
  EXPECT_EQ(said.error().error.message(),
            "endpoint vendor: DescribeInstances: HTTP 403 UnauthorizedOperation");
  EXPECT_EQ(tell(kStop), "endpoint vendor: StopInstances: HTTP 403 UnauthorizedOperation");
  for (const std::string& body :
       {error_body("secret word"), error_body("a\nb"), error_body(std::string(65, 'x')),
        error_body("x..y"), error_body(""), std::string("<html>secret"), std::string(),
        "<!DOCTYPE Response>" + error_body("secret"),
        std::string("<Response><Errors><Error><Code><a>secret</a></Code></Error></Errors>"
                    "</Response>")}) {
    answer(400, body);
    const auto odd = get(kDescribe);
    ASSERT_FALSE(odd);
    EXPECT_EQ(odd.error().code, "") << body;
    EXPECT_EQ(odd.error().error.message(), "endpoint vendor: DescribeInstances: HTTP 400") << body;
  }
  answer(400, error_body("InvalidInstanceID.NotFound"));
  EXPECT_EQ(get(kDescribe).error().code, "InvalidInstanceID.NotFound");
}

TEST_F(AwsTest, an_answer_that_is_no_xml_is_none) {
  using Why = EndpointFailure::Why;
  for (const std::string body :
       {"<html>secret", "", "{}", "<!DOCTYPE R><R>secret</R>", "<R><a/><a/></R>"}) {
    answer(200, body);
    const auto odd = get(kDescribe);
    ASSERT_FALSE(odd) << body;
    EXPECT_EQ(odd.error().why, Why::NotJson) << body;
    EXPECT_EQ(odd.error().error.message(),
              "endpoint vendor: DescribeInstances: the answer is not the XML that was expected");
  }
  answer(503, error_body("RequestLimitExceeded"));
  EXPECT_EQ(get(kDescribe).error().why, Why::Status);
  http.on(port::Method::Post, "/", FakeAnswer::silent());
  EXPECT_EQ(get(kDescribe).error().why, Why::Timeout);
  http.on(port::Method::Post, "/", FakeAnswer::lost());
  EXPECT_EQ(get(kDescribe).error().why, Why::Unreachable);
}

TEST_F(AwsTest, that_an_order_was_heard_is_not_known_when_no_answer_came) {
  http.on(port::Method::Post, "/", FakeAnswer::lost());
  std::optional<Error> error;
  const auto call =
      endpoints->post("vendor", {.path = "/", .body = kStop, .limit = 5s, .may_send = may_send},
                      [&error](const Result<void>& accepted) { error = accepted.error(); });
  ASSERT_TRUE(test::run_until(
      loop, [&error] { return error.has_value(); }, 1min));
  EXPECT_EQ(error->kind, Error::Kind::Unknown);
}

}  // namespace
}  // namespace moonfence::cluster
