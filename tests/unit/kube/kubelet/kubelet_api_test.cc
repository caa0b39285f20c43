#include "kube/kubelet/kubelet_api.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using port::Method;
using test::FakeAnswer;

struct KubeletApiTest : WireTest {
  const std::string proxy = "/prefix/api/v1/nodes/n1/proxy";
  const std::string none = R"({"kind":"PodList","metadata":{},"items":null})";
  const std::string one =
      R"({"kind":"PodList","items":[{"metadata":{"name":"web-0","namespace":"db","uid":"u1"}}]})";

  KubeletApiTest() {
    http.on(Method::Get, proxy + "/pods", FakeAnswer{.body = none});
    http.on(Method::Get, proxy + "/runningpods/", FakeAnswer{.body = one});
    http.on(Method::Get, proxy + "/metrics",
            FakeAnswer{.body = "kubelet_node_name{node=\"n1\"} 1\n"
                               "process_start_time_seconds 1.76733e+09\n",
                       .headers = {{"content-type", "text/plain; version=0.0.4"}}});
  }
  Result<KubeletWord> ask(const std::string& node = "n1") {
    std::optional<Result<KubeletWord>> slot;
    const CallHandle handle = ask_kubelet(
        caller, NodeName(node), [&slot](Result<KubeletWord> word) { slot = std::move(word); });
    EXPECT_FALSE(slot.has_value());
    return wait_for(slot);
  }
};

TEST_F(KubeletApiTest, it_is_asked_three_things_one_after_the_other) {
  const auto word = ask();
  ASSERT_TRUE(word) << word.error().text;
  EXPECT_TRUE(word->wanted.empty());
  ASSERT_EQ(word->running.size(), 1U);
  EXPECT_EQ(word->running[0].uid, Uid("u1"));
  EXPECT_EQ(word->process.node, NodeName("n1"));
  ASSERT_EQ(http.requests.size(), 3U);
  EXPECT_EQ(http.requests[0].line(), "GET " + proxy + "/pods");
  EXPECT_EQ(http.requests[1].line(), "GET " + proxy + "/runningpods/");
  EXPECT_EQ(http.requests[2].line(), "GET " + proxy + "/metrics");
  for (const test::FakeRequest& request : http.requests) {
    EXPECT_EQ(request.lane, port::Lane::Endpoints);
    EXPECT_EQ(request.timeout, kKubeletLimit);
  }
}

TEST_F(KubeletApiTest, the_first_failure_is_the_answer) {
  http.on(Method::Get, proxy + "/runningpods/", FakeAnswer{.body = R"({"kind":"PodList",)"});
  const auto word = ask();
  ASSERT_FALSE(word);
  EXPECT_NE(word.error().text.find("/runningpods/"), std::string::npos);
  EXPECT_EQ(http.requests.size(), 2U);
  http.on(Method::Get, proxy + "/pods", FakeAnswer::silent());
  EXPECT_EQ(ask().error().kind, Error::Kind::Retryable);
  EXPECT_EQ(http.requests.size(), 3U);
  EXPECT_FALSE(ask("../n1"));
}

// A kubelet's 5xx was counted as a sign that the API server is out of our reach, its 401 made us
// read our credentials anew, and its clock became that of the API server.
TEST_F(KubeletApiTest, what_a_kubelet_says_is_not_taken_for_the_api_server_s_word) {
  struct : CallObserver {
    void on_exchange(Method /*method*/, int /*status*/, Duration /*took*/,
                     std::optional<WallTime> /*date*/) override {
      ++told;
    }
    int told = 0;
  } observer;
  caller.observe(&observer);
  credentials.next_token = "second";
  http.on(Method::Get, proxy + "/metrics",
          FakeAnswer{.body = "x\n",
                     .headers = {{"content-type", "text/plain"},
                                 {"date", "Thu, 01 Jan 2026 00:00:00 GMT"},
                                 {"warning", R"(299 - "from a kubelet")"}}});
  EXPECT_FALSE(ask());
  for (const int status : {401, 500, 503}) {
    http.on(
        Method::Get, proxy + "/pods",
        FakeAnswer{.status = status, .body = "no", .headers = {{"content-type", "text/plain"}}});
    EXPECT_EQ(ask().error().http_status, status);
  }
  http.on(Method::Get, proxy + "/pods", FakeAnswer::lost());
  EXPECT_FALSE(ask());
  EXPECT_EQ(observer.told, 0);
  EXPECT_EQ(credentials.refusals, 0);
  EXPECT_EQ(log.count("api_warning"), 0U);
}

}  // namespace
}  // namespace moonfence::kube
