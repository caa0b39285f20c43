#include "kube/heartbeat.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using port::Method;
using test::FakeAnswer;

struct HeartbeatTest : WireTest {
  Heartbeat heartbeat{loop, caller, http, log};
};

TEST_F(HeartbeatTest, any_answer_is_a_sign_of_life) {
  http.sequence(Method::Get, "/prefix/livez",
                {FakeAnswer{.body = "ok", .headers = {{"content-type", "text/plain"}}},
                 status(401, "Unauthorized"), status(403, "Forbidden"), status(404, ""),
                 status(503, ""), FakeAnswer{.body = "{}"}});
  heartbeat.start();
  test::run_for(loop, 61s);
  EXPECT_EQ(http.requests.size(), 13U * Heartbeat::kWarm);
  EXPECT_EQ(heartbeat.misses(), 0);
  EXPECT_EQ(http.drops, 0);
  EXPECT_EQ(http.requests.at(0).lane, port::Lane::Writes);
  EXPECT_EQ(http.requests.at(0).timeout, 3s);
}

// Five questions every five seconds to who refuses them all are no way to be heard.
// One question alone would be too few for a doubt (scenario H-18-calls-fail).
TEST_F(HeartbeatTest, who_answers_with_errors_is_asked_less) {
  http.on(Method::Get, "/prefix/livez", status(401, "Unauthorized"));
  heartbeat.start();
  test::run_for(loop, 61s);
  const std::size_t while_unwell = Heartbeat::kWarm + 12 * Heartbeat::kWhileUnwell;
  EXPECT_EQ(http.requests.size(), while_unwell);
  http.on(Method::Get, "/prefix/livez",
          FakeAnswer{.body = "ok", .headers = {{"content-type", "text/plain"}}});
  test::run_for(loop, 10s);
  EXPECT_EQ(http.requests.size(), while_unwell + Heartbeat::kWhileUnwell + Heartbeat::kWarm);
}

TEST_F(HeartbeatTest, two_misses_in_a_row_end_all_connections_once) {
  http.on(Method::Get, "/prefix/livez", FakeAnswer::silent());
  heartbeat.start();
  test::run_for(loop, 7s);
  EXPECT_EQ(http.drops, 0);
  test::run_for(loop, 6s);
  EXPECT_EQ(http.drops, 1);
  test::run_for(loop, 10min);
  EXPECT_EQ(http.drops, 1);
  EXPECT_EQ(log.count("api_server_silent"), 1U);
  http.sequence(Method::Get, "/prefix/livez", {FakeAnswer{.body = "{}"}, FakeAnswer::silent()});
  test::run_for(loop, 30s);
  EXPECT_EQ(http.drops, 2) << "a new outage";
}

TEST_F(HeartbeatTest, misses_that_are_not_in_a_row_do_nothing) {
  int beat = 0;
  http.on(Method::Get, "/prefix/livez", [&beat](const test::FakeRequest&) {
    return ++beat % 2 == 0 ? FakeAnswer::silent() : FakeAnswer{.body = "{}"};
  });
  heartbeat.start();
  test::run_for(loop, 5min);
  EXPECT_EQ(http.drops, 0);
}

TEST_F(HeartbeatTest, missing_credentials_are_not_the_connections_fault) {
  credentials.fault = Error{.kind = Error::Kind::Retryable, .text = "plugin died"};
  heartbeat.start();
  test::run_for(loop, 5min);
  EXPECT_EQ(http.drops, 0);
}

}  // namespace
}  // namespace moonfence::kube
