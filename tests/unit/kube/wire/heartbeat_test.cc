#include "kube/wire/heartbeat.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using port::Method;
using test::FakeAnswer;

constexpr std::size_t kForDeletions = Heartbeat::kWide - Heartbeat::kWarm;

struct HeartbeatTest : WireTest {
  HeartbeatTest() { caller.observe(&observer); }

  void well() {
    http.on(Method::Get, "/prefix/livez",
            FakeAnswer{.body = "ok", .headers = {{"content-type", "text/plain"}}});
  }

  struct : CallObserver {
    void on_exchange(port::Method, int, Duration, std::optional<WallTime>) override { ++seen; }
    std::size_t seen = 0;
  } observer;
  Heartbeat heartbeat{loop, caller, http, log};
};

TEST_F(HeartbeatTest, any_answer_is_a_sign_of_life) {
  http.sequence(Method::Get, "/prefix/livez",
                {FakeAnswer{.body = "ok", .headers = {{"content-type", "text/plain"}}},
                 status(401, "Unauthorized"), status(403, "Forbidden"), status(404, ""),
                 status(503, ""), FakeAnswer{.body = "{}"}});
  heartbeat.start();
  test::run_for(loop, 4s);
  EXPECT_EQ(http.requests.size(), Heartbeat::kWarm);
  test::run_for(loop, 57s);
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
  well();
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), while_unwell + Heartbeat::kWhileUnwell);
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), while_unwell + Heartbeat::kWhileUnwell + Heartbeat::kWide)
      << "the connections that deletions will need may be gone";
}

// An API server ends a connection that nothing was asked on for 90 s, a proxy perhaps after 50 s.
TEST_F(HeartbeatTest, connections_for_deletions_are_kept_warm) {
  well();
  heartbeat.start();
  test::run_for(loop, 1s);
  EXPECT_EQ(http.requests.size(), Heartbeat::kWarm) << "the start has lists to read";
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), Heartbeat::kWarm + Heartbeat::kWide);
  test::run_for(loop, 40s);
  EXPECT_EQ(http.requests.size(), 8 * Heartbeat::kWarm + 2 * Heartbeat::kWide);
  test::run_for(loop, 10min);
  EXPECT_EQ(http.requests.size(), 130 * Heartbeat::kWarm + 17 * kForDeletions);
}

// With the server's port closed 70 were begun in eleven seconds.
TEST_F(HeartbeatTest, who_does_not_answer_is_not_asked_that_often) {
  well();
  heartbeat.start();
  test::run_for(loop, 44s);
  const std::size_t before = http.requests.size();
  http.on(Method::Get, "/prefix/livez", FakeAnswer::refused());
  test::run_for(loop, 5s);
  EXPECT_EQ(http.requests.size(), before + Heartbeat::kWarm) << "although it was due";
}

// fence/rules/self_doubt asks whether most calls of ten seconds failed.
TEST_F(HeartbeatTest, what_keeps_connections_warm_for_deletions_hides_no_failing_calls) {
  well();
  heartbeat.start();
  test::run_for(loop, 6s);
  EXPECT_EQ(http.requests.size(), Heartbeat::kWarm + Heartbeat::kWide);
  EXPECT_EQ(observer.seen, 2 * Heartbeat::kWarm);
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
  http.on(Method::Get, "/prefix/livez", [this](const test::FakeRequest&) {
    const auto beat = loop.now().time_since_epoch() / Heartbeat::kInterval;
    return beat % 2 == 0 ? FakeAnswer::silent() : FakeAnswer{.body = "{}"};
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
