#include "cluster/endpoints/endpoint_sender.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;
using test::FakeAnswer;
using test::FakeRequest;
using testing::ElementsAre;

constexpr const char* kSaid = R"({"said": 1})";

struct EndpointSenderTest : testing::Test {
  EndpointSenderTest() {
    http.on(port::Method::Post, "/hook", [this](const FakeRequest&) { return answer; });
  }
  static EndpointRules rules() {
    EndpointRules rules;
    rules.url = "https://hooks.example.com/hook";
    return rules;
  }
  // What becomes of one letter until then: "" for a success.
  std::vector<std::string> send(Duration time) {
    std::vector<std::string> ends;
    call =
        sender.send({.body = "{}",
                     .content_type = "application/json",
                     .headers = {},
                     .may_send = {},
                     .heard = [this](const nlohmann::json& said) { heard.push_back(said.dump()); }},
                    [this, &ends](const Result<void>& outcome) {
                      ends.push_back(outcome ? "" : outcome.error().message());
                      call.reset();
                    });
    test::run_for(loop, time);
    call.reset();
    return ends;
  }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeFiles files;
  test::FakeLog log;
  FakeAnswer answer;
  std::vector<std::string> heard;
  EndpointSender sender{{loop, http, files, log, "moonfence/1"}, "hook", rules()};
  kube::CallHandle call;
};

TEST_F(EndpointSenderTest, what_a_success_says_is_heard) {
  answer = {.body = kSaid};
  EXPECT_THAT(send(100ms), ElementsAre(""));
  EXPECT_THAT(heard, ElementsAre(R"({"said":1})"));
}

TEST_F(EndpointSenderTest, a_success_that_says_nothing_sensible_is_one_all_the_same) {
  const Error reset{.kind = Error::Kind::Retryable, .text = "connection reset"};
  const std::string huge = "\"" + std::string(EndpointSender::kLongestAnswer, 'a') + "\"";
  for (const FakeAnswer& each :
       {FakeAnswer{.status = 204}, FakeAnswer{.body = "<html>"},
        FakeAnswer{.body = R"({"said": )", .error = reset}, FakeAnswer{.body = huge},
        FakeAnswer{.body = huge, .chunk = 1000, .hold = true}}) {
    answer = each;
    heard.clear();
    EXPECT_THAT(send(100ms), ElementsAre(""));
    EXPECT_THAT(heard, ElementsAre("null"));
  }
  EXPECT_EQ(http.open_exchanges(), 0U);
}

TEST_F(EndpointSenderTest, the_end_of_an_answer_is_waited_for_a_second) {
  answer = {.body = kSaid, .hold = true};
  EXPECT_THAT(send(900ms), ElementsAre());
  EXPECT_THAT(heard, ElementsAre());
  EXPECT_THAT(send(1100ms), ElementsAre(""));
  EXPECT_THAT(heard, ElementsAre(R"({"said":1})"));
  EXPECT_EQ(http.open_exchanges(), 0U);
}

TEST_F(EndpointSenderTest, what_is_no_success_is_not_heard_and_not_quoted) {
  for (const int status : {302, 400, 500}) {
    answer = {.status = status, .body = kSaid};
    EXPECT_THAT(send(100ms), ElementsAre("hook: HTTP " + std::to_string(status)));
  }
  answer = FakeAnswer::silent();
  EXPECT_EQ(send(1min).size(), 1U) << "its timeout";
  EXPECT_THAT(heard, ElementsAre());
}

TEST_F(EndpointSenderTest, the_path_is_sent_as_it_stands_in_the_url) {
  answer = {.status = 204};
  for (const std::string path : {"/bot12:AA-b/send@x;v=1+2!", "/hook/", "/"}) {
    EndpointRules of_path = rules();
    of_path.url = "https://hooks.example.com" + path;
    EndpointSender other({loop, http, files, log, "moonfence/1"}, "hook", of_path);
    http.on(port::Method::Post, path, [this](const FakeRequest&) { return answer; });
    bool is_taken = false;
    call = other.send(
        {.body = "{}", .content_type = "application/json", .headers = {}, .may_send = {}},
        [&is_taken](const Result<void>& outcome) { is_taken = outcome.has_value(); });
    test::run_for(loop, 2s);
    call.reset();
    ASSERT_TRUE(is_taken) << path;
    EXPECT_EQ(http.requests.back().line(), "POST " + path);
  }
}

TEST_F(EndpointSenderTest, a_handle_that_dies_ends_it) {
  answer = {.body = kSaid, .hold = true};
  EXPECT_THAT(send(100ms), ElementsAre());
  test::run_for(loop, 1min);
  EXPECT_THAT(heard, ElementsAre());
  EXPECT_EQ(http.open_exchanges(), 0U);
}

}  // namespace
}  // namespace moonfence::cluster
